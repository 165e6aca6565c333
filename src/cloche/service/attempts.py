"""The verbs about attempts and contests: runs whose state the caller keeps or discards afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from cloche.configuration import Configuration
from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.events import Started
from cloche.model.history import Best
from cloche.model.result import Result
from cloche.policy import limits
from cloche.policy.caller import Caller
from cloche.service.events import AttemptEnded, ContestEnded, ScoreRequested
from cloche.service.identity import new_id
from cloche.service.run import Run
from cloche.service.runs import Runs
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.sandbox.attempts import AsyncAttempt
    from cloche.service.lifecycle import Lifecycle
    from cloche.service.live import LiveSandbox

MAX_ATTEMPTS = 16  # undecided, in one sandbox


class Attempts:
    """Tries code in branches of a session."""

    def __init__(self, configuration: Configuration, lifecycle: Lifecycle, runs: Runs) -> None:
        self._configuration, self._lifecycle, self._runs = configuration, lifecycle, runs

    @verb("run", starts="cell")
    async def start(
        self, caller: Caller, sandbox: str, code: str, *, context: str | None = None, timeout: float | None = None
    ) -> tuple[Run, list[AttemptEnded]]:
        """Try code in a branch.  The list holds the attempt when the run is over."""
        limits.check_value("timeout", timeout, self._configuration)
        live = await self._lifecycle.find(caller, sandbox)
        if len(live.attempts) >= MAX_ATTEMPTS:
            raise Refused(f"There are {MAX_ATTEMPTS} undecided attempts.", hint="Keep or discard some of them.")
        tried: list[AttemptEnded] = []

        async def work(run: Run) -> Result:
            run.publish(Started(0))
            async with live.used() as box:
                found = await box.attempt(code, context=context, timeout=timeout)
            identity = new_id("try")
            live.attempts[identity] = found
            tried.append(AttemptEnded(identity, run.id, found.result, found.files, found.variables))
            run.publish_last(tried[0])
            return found.result

        return await self._runs.start_in(caller, live, work, code, context=context or "python"), tried

    @verb("run")
    async def keep(self, caller: Caller, sandbox: str, attempt: str) -> Result:
        """Let the session continue from an attempt."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used():
            return await _taken(live, attempt).keep()

    @verb("run")
    async def discard(self, caller: Caller, sandbox: str, attempt: str) -> None:
        """Drop an attempt, as if it had never run."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used():
            await _taken(live, attempt).discard()

    @verb("run", starts="cell")
    async def best_of(
        self,
        caller: Caller,
        sandbox: str,
        candidates: Sequence[str],
        score: str | None,
        *,
        context: str | None = None,
        timeout: float | None = None,
        asks: bool = False,
    ) -> tuple[Run, list[Best]]:
        """Let candidates compete.  Without a score expression, the client that follows the run is asked for scores."""
        limits.check_value("timeout", timeout, self._configuration)
        live = await self._lifecycle.find(caller, sandbox)
        if score is None and not asks:
            raise InvalidRun(
                "A score is needed.", hint="Give an expression, or accept server-sent events and be asked."
            )
        found: list[Best] = []

        async def work(run: Run) -> Result:
            async def ask(result: Result) -> Any:
                value = await run.ask(lambda call: ScoreRequested(call, run.id, result))
                try:
                    return float(value)
                except (TypeError, ValueError, OverflowError):
                    raise InvalidRun(f"A score is a number, not {value!r:.100}.") from None

            run.publish(Started(0))
            async with live.used() as box:
                best = await box.best_of(
                    candidates, score if score is not None else cast(Any, ask), context=context, timeout=timeout
                )
            found.append(best)
            run.publish_last(ContestEnded(best))
            return best.result or best.candidates[0].result

        return await self._runs.start_in(caller, live, work, "\n".join(candidates), context=context or "python"), found


def _taken(live: LiveSandbox, identity: str) -> AsyncAttempt:
    """Take an attempt out of the undecided ones."""
    found = live.attempts.pop(identity, None)
    if found is None:
        raise Gone("There is no such attempt, or it was decided already.")
    return found
