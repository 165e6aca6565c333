"""Attempts: code runs in a branch first, and its owner keeps or discards the changes."""

from __future__ import annotations

from cloche.errors import Gone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.result import Result
    from cloche.sandbox.backend import AsyncTrial
    from cloche.sandbox.sandbox import AsyncSandbox


class AsyncAttempt:
    """Code that has run in a branch.  `keep` or `discard` its changes; a `with` block discards them by default."""

    def __init__(self, box: AsyncSandbox, trial: AsyncTrial) -> None:
        self._box, self._trial = box, trial
        self._decided = ""
        self.result, self.files, self.variables = trial.result, trial.files, trial.variables

    async def keep(self) -> Result:
        """Continue the session with the changes of the attempt."""
        self._decide("kept")
        await self._trial.keep()
        await self._box.refresh()
        return self.result

    async def discard(self) -> None:
        """Bring variables and files back to their state before the attempt."""
        self._decide("discarded")
        await self._trial.discard()
        await self._box.refresh()

    async def __aenter__(self) -> AsyncAttempt:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._decided:
            await self.discard()

    def _decide(self, what: str) -> None:
        if self._decided:
            raise Gone(f"This attempt was {self._decided} already.")
        self._decided = what
