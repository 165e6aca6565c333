"""Repairs pools of threads and processes in a copy of the kernel: a fork copies the pools, but not their workers.

A thread pool starts new threads.  A process pool is broken and raises an error, and so does work that a thread was
doing when the copy was made.  Nothing waits forever.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOST = "its workers were running when a checkpoint was made, and threads and processes are not restored"


def running_futures() -> list[Any]:
    """Return the futures that pool threads are computing; called in the original, before the fork."""
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
    """Fail the futures in the copy, where no thread computes them."""
    for future in futures:
        if not future.done():
            future.set_exception(RuntimeError(LOST))


def renew() -> None:
    """Repair the pools of a copy that continues as a kernel, or make them fail clearly."""
    for step in (_thread_pools, _process_pools, _multiprocessing_pools, _joblib):
        try:
            step()
        except Exception:  # an unknown version: it waits, as it does anywhere after a fork
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
        for _ in range(pool._work_queue.qsize()):  # work that was waiting for a thread
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


def _multiprocessing_pools() -> None:
    """Mark multiprocessing's pools, those of threads as well, as terminated."""
    module, util = sys.modules.get("multiprocessing.pool"), sys.modules.get("multiprocessing.util")
    if module is None or util is None:
        return
    for final in list(util._finalizer_registry.values()):
        pool = final._weakref() if final._weakref is not None else None
        if isinstance(pool, module.Pool):
            pool._state = module.TERMINATE


def _joblib() -> None:
    """Drop joblib's workers: it keeps them for reuse, and would wait forever for those of the original."""
    module = sys.modules.get("joblib.externals.loky.reusable_executor")
    if module is not None and module._executor is not None:
        _kept.append(module._executor)  # not freed: that would tell the original's workers to end
        module._executor = module._executor_kwargs = None  # type: ignore[attr-defined]


_kept: list[Any] = []
