# Generated from src/cloche/sandbox/attempts.py by scripts/blocking.py: edit that file instead.
"""Attempts: code runs in a branch first, and its owner keeps or discards the changes."""

from __future__ import annotations

from cloche.errors import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.blocking.sandbox.backend import Trial
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.model.result import Result


class Attempt:
    """Code that has run in a branch.  `keep` or `discard` its changes; a `with` block discards them by default."""

    def __init__(self, box: Sandbox, trial: Trial) -> None:
        self._box, self._trial = box, trial
        self._decided = ""
        self.result, self.files, self.variables = trial.result, trial.files, trial.variables

    def keep(self) -> Result:
        """Continue the session with the changes of the attempt."""
        self._decide("kept")
        self._trial.keep()
        self._box.refresh()
        return self.result

    def discard(self) -> None:
        """Bring variables and files back to their state before the attempt."""
        self._decide("discarded")
        self._trial.discard()
        self._box.refresh()

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._decided:
            self.discard()

    def _decide(self, what: str) -> None:
        if self._decided:
            raise Gone(f"This attempt was {self._decided} already.")
        self._decided = what
