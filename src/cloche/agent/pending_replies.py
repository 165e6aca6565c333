"""Replies that wait for several things at once: copies of kernels, jobs on files."""

from __future__ import annotations

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent


class PendingReply:
    """An operation that replies when everything it expect for is done, or fails with the first problem.

    On failure, everything that was done so far is undone.
    """

    def __init__(self, agent: Agent, operation: int, then: Callable[[PendingReply], None]) -> None:
        self.agent, self.operation = agent, operation
        self.reply: dict[str, Any] = {}
        self.problem: OSError | None = None
        self.undo: list[Callable[[], None]] = []  # called on failure
        self._outstanding = 1  # 1 stands for `all_started`
        self._then = then
        agent.operations[operation] = self

    def receive(self, kind: int, _payload: bytes) -> None:
        """Handle a cancellation; whatever is still running ends by itself."""
        if kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Undo the work so far, without waiting for the rest."""
        self.fail(OSError(4, "the operation was cancelled"))
        self.finish()

    def expect(self) -> Callable[[dict[str, Any] | OSError | None], None]:
        """Wait for one more thing; call the returned function when it is done."""
        self._outstanding += 1

        def done(outcome: dict[str, Any] | OSError | None) -> None:
            if isinstance(outcome, OSError):
                self.fail(outcome)
            elif outcome:
                self.reply.update(outcome)
            self._one_done()

        return done

    def all_started(self) -> None:
        """Say that everything has been started: the reply may be sent."""
        self._one_done()

    def fail(self, problem: OSError) -> None:
        """Note a failure; the first one is reported."""
        self.problem = self.problem or problem

    def finish(self) -> None:
        """Send the reply or the failure to the engine."""
        if self.agent.operations.get(self.operation) is not self:
            return  # it was cancelled
        if self.problem is not None:
            for undo in self.undo:
                undo()
            self.agent.fail(self.operation, self.problem)
        else:
            self.agent.finish(self.operation, frames.REPLY, self.reply)

    def _one_done(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self._then(self)
