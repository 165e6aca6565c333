"""Pools of threads and processes in a copy of the kernel: a fork carries the pools, but not their workers.

A pool of threads starts new ones.  One of processes is broken, and says so; and so does what a thread was at when the
copy was made: nothing waits for what never comes.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOST = "it was under way, or its workers ran, when a checkpoint was made: threads and processes are not restored"


def under_way() -> list[Any]:
    """The futures that threads of pools compute: asked of the original, before the fork."""
    module = sys.modules.get("concurrent.futures.thread")
    if module is None:
        return []
    run = module._WorkItem.run.__code__
    found = []
    for top in sys._current_frames().values():
        frame = top
        while frame is not None:
            if frame.f_code is run:
                found.append(frame.f_locals["self"].future)
            frame = frame.f_back  # type: ignore[assignment]
    return found


def fail(futures: list[Any]) -> None:
    """In the copy: nobody computes these."""
    for future in futures:
        if not future.done():
            future.set_exception(RuntimeError(LOST))


def renew() -> None:
    """In a copy that goes on as a kernel: make pools of use again, or of a use that can be told."""
    for step in (_thread_pools, _process_pools, _older_pools, _joblib):
        try:
            step()
        except Exception:  # another version than we know: it waits as it would anywhere after a fork
            pass


def _thread_pools() -> None:
    module = sys.modules.get("concurrent.futures.thread")
    if module is None:
        return
    from threading import Semaphore

    pools = {id(pool): pool for thread in list(module._threads_queues) if (pool := thread._args[0]()) is not None}
    module._threads_queues.clear()
    for pool in pools.values():
        pool._threads.clear()
        pool._idle_semaphore = Semaphore(0)
        for _ in range(pool._work_queue.qsize()):  # what waited for a thread
            pool._adjust_thread_count()


def _process_pools() -> None:
    module = sys.modules.get("concurrent.futures.process")
    if module is None:
        return
    for manager in list(module._threads_wakeups):
        pool = manager.executor_reference()
        if pool is not None:
            pool._broken = LOST
            for item in pool._pending_work_items.values():
                item.future.set_exception(module.BrokenProcessPool(LOST))
            pool._pending_work_items.clear()
    module._threads_wakeups.clear()


def _older_pools() -> None:
    """Those of multiprocessing, of threads as well, are told that they do not run."""
    module, util = sys.modules.get("multiprocessing.pool"), sys.modules.get("multiprocessing.util")
    if module is None or util is None:
        return
    for final in list(util._finalizer_registry.values()):
        pool = final._weakref() if final._weakref is not None else None
        if isinstance(pool, module.Pool):
            pool._state = module.TERMINATE


def _joblib() -> None:
    """It keeps its workers for the next time, and would wait for ever for those of the original."""
    module = sys.modules.get("joblib.externals.loky.reusable_executor")
    if module is not None and module._executor is not None:
        _left.append(module._executor)  # not freed: it would tell the original's workers to end
        module._executor = module._executor_kwargs = None  # type: ignore[attr-defined]


_left: list[Any] = []
