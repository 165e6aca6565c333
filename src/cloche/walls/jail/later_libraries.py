"""Imports libraries that some sessions need, in quiet moments, and shelves them: the other sessions do not notice.

scikit-learn, SciPy and the like take more than a second to import, and a session's sandbox is made before its code is
known.  With pages of 4 KB they would make every fork slower, so they are left out where the kernel has no huge pages.
"""

from __future__ import annotations

from time import monotonic

from cloche.agent import shelved_modules
from cloche.agent.python import before_programs
from cloche.walls.jail import huge_pages, library_imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_DELAY_S = 3.0  # after the nursery is warm: a process that ends soon needs none of this
_QUIET_S = 0.05  # without a claim, before each step: a claim would wait for its end


class LaterLibraries:
    """Does the work in steps; a fork between two steps has the libraries that were imported by then."""

    def __init__(self, names: list[str], proc: int, settle: Callable[[], None]) -> None:
        self._names, self._proc, self._settle = names, proc, settle
        self._steps = self._work()
        self._begin = 0.0
        self._is_done = False

    def start(self) -> None:
        """Begin in a while."""
        self._begin = monotonic() + _DELAY_S

    def wait_s(self, last_claim: float) -> float | None:
        """Return the seconds until the next step, by the time of the last claim; None if there is no step."""
        if self._is_done or not self._begin:
            return None
        return max(0.0, max(self._begin, last_claim + _QUIET_S) - monotonic())

    def step(self) -> bool:
        """Do the next step; returns whether the sandboxes that were made before lack the libraries."""
        try:
            return next(self._steps)
        except StopIteration:
            self._is_done = True
            return False

    def _work(self) -> Iterator[bool]:
        if not huge_pages.are_available(self._proc):
            return
        before_programs(shelved_modules.leave_shelved)
        library_imports.mount_scratch()
        for name in self._names:
            shelved_modules.shelve_new(lambda name=name: library_imports.import_library(name))  # type: ignore[misc]
            yield False
        library_imports.umount_scratch()
        self._settle()
        for address in huge_pages.areas(self._proc):
            huge_pages.collapse(address)
            yield False
        yield True
