"""Operations of several steps: some at once, some after others, all of them undone when one fails."""

from __future__ import annotations

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.agent.main import Agent


class PendingReply:
    """An operation that waits for several things at once, and ends with the first problem or when all are done."""

    def __init__(self, agent: Agent, operation: int, then: Callable[[PendingReply], None]) -> None:
        self.agent, self.operation = agent, operation
        self.reply: dict[str, Any] = {}
        self.problem: OSError | None = None
        self.undo: list[Callable[[], None]] = []  # in case of a problem
        self._awaited = 1  # until `go`
        self._then = then
        agent.operations[operation] = self

    def receive(self, kind: int, _payload: bytes) -> None:
        """The engine has lost interest; what is under way ends by itself."""
        if kind == frames.CANCEL:
            self.cancel()

    def cancel(self) -> None:
        """Undo what was done so far, without waiting for the rest."""
        self.fail(OSError(4, "it was called off"))
        self.finish()

    def waits(self) -> Callable[[dict[str, Any] | OSError | None], None]:
        """One more thing to wait for: call this when it is done."""
        self._awaited += 1

        def done(outcome: dict[str, Any] | OSError | None) -> None:
            if isinstance(outcome, OSError):
                self.fail(outcome)
            elif outcome:
                self.reply.update(outcome)
            self._one_less()

        return done

    def go(self) -> None:
        """Everything has been begun."""
        self._one_less()

    def fail(self, problem: OSError) -> None:
        """Something went wrong."""
        self.problem = self.problem or problem

    def finish(self) -> None:
        """Tell the engine."""
        if self.agent.operations.get(self.operation) is not self:
            return  # it was called off
        if self.problem is not None:
            for undo in self.undo:
                undo()
            self.agent.fail(self.operation, self.problem)
        else:
            self.agent.finish(self.operation, frames.REPLY, self.reply)

    def _one_less(self) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self._then(self)
