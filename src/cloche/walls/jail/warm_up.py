"""What a nursery does once before it forks: imports and first uses, so that no sandbox has to wait for them."""

from __future__ import annotations

import gc
from time import monotonic

from cloche.agent import compute_threads, files, folder_watch, signals
from cloche.agent.python import note_state, offer_kernels
from cloche.walls.jail import library_imports, rehearsal, root, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LOOK_S = 0.005  # between two looks at the memory of sandboxes
_WORK = 5  # times the duration of a look, for the work between two of them
_LATER = (files, folder_watch)  # the agent imports them when it needs them, and could not find them then

# Parts of the standard library that programs use most, imported while there is nothing else to do.  Each megabyte makes
# every sandbox a sixth of a millisecond slower, so asyncio (26 ms, 2 MB, seldom used) is not here; nor is threading,
# nor subprocess, which imports it, since it does work of its own after every fork: docs/performance.md.
COMMON = [
    *("re", "json", "random", "datetime", "string", "typing", "heapq", "copy", "pathlib", "dataclasses", "csv"),
    *("base64", "textwrap"),
]


class WarmUp:
    """Does the work in steps, so that a claim never waits for more than one import."""

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._configuration = configuration
        self._to_import = list(configuration["preload"])
        self.furnish = _furnish_sessions() if configuration.get("kernels") else None
        self.is_done = False
        if configuration.get("prepare"):
            from cloche.agent import environment_files  # noqa: F401  (seldom needed, and not to be found later)
        self._kernel_modules: Any = None
        if configuration["warm_kernel"]:
            from cloche.walls.jail.kernel_modules import KernelModules  # the same

            self._kernel_modules = KernelModules()
        self._later: Any = None
        if configuration["preload_later"]:
            from cloche.walls.jail.later_libraries import LaterLibraries  # seldom needed, and not to be found later

            self._later = LaterLibraries(configuration["preload_later"], configuration["host_proc"], _settle)

    def step(self, look: Callable[[], None]) -> bool:
        """Do the next step; returns whether the nursery is warm now, which the engine wants to know.

        `look` enforces the limits of sandboxes, and is called regularly meanwhile.
        """
        if self._kernel_modules is not None:
            # First: a sandbox that is made before this has loaded no library, so that its kernels need none of it.
            _do_looking(self._kernel_modules.keep, look)
            self._kernel_modules = None
            return False
        if self._to_import:
            name = self._to_import.pop(0)
            _do_looking(lambda: library_imports.import_library(name), look)
            return False
        self.is_done = True
        if not self._configuration["preload"]:
            return False  # this nursery makes a single sandbox
        seccomp.place(self._configuration["filters"][False])
        root.font_lists()
        if self._configuration["rehearse"]:
            _do_looking(rehearsal.rehearse, look)
            if self._configuration["warm_kernel"]:
                _do_looking(rehearsal.rehearse_kernel, look)
            library_imports.umount_scratch()
        _settle()
        if self._later is not None:
            self._later.start()
        return True

    def later_in_s(self, last_claim: float) -> float | None:
        """Return the seconds until `step_later`, by the time of the last claim; None if nothing is left to do."""
        wait: float | None = self._later.wait_s(last_claim) if self._later is not None else None
        return wait

    def step_later(self, look: Callable[[], None]) -> bool:
        """Do a step of the work that can wait; returns whether sandboxes made before should be replaced."""
        found = [False]
        _do_looking(lambda: found.append(self._later.step()), look)
        return found[-1]


def _settle() -> None:
    """Note the state that forks must not share.

    The objects of now stay for good: the collector need not touch them, so they stay shared after a fork.
    """
    note_state()
    compute_threads.note()
    gc.collect()
    gc.freeze()


def _do_looking(work: Callable[[], None], look: Callable[[], None]) -> None:
    working = True

    def tick(*_: object) -> None:
        begin = monotonic()
        look()
        if working:  # again only now: a look may take longer than the time between two of them
            signals.setitimer(signals.ITIMER_REAL, max(_LOOK_S, _WORK * (monotonic() - begin)))

    signals.signal(signals.SIGALRM, tick)
    signals.setitimer(signals.ITIMER_REAL, _LOOK_S)
    try:
        work()
    finally:
        working = False
        signals.setitimer(signals.ITIMER_REAL, 0)
        signals.signal(signals.SIGALRM, signals.SIG_DFL)


def _furnish_sessions() -> Callable[[Any, int, int], None]:
    """Import everything that sessions need, which is only done where there can be sessions."""
    from cloche.agent import sessions
    from cloche.kernels import entry_points

    offer_kernels(entry_points())
    return sessions.enable
