"""Attempts and contests: runs whose state the caller keeps or throws away afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from cloche.engine.attempts import AsyncAttempt
from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.events import Started
from cloche.model.history import Best
from cloche.model.result import Result
from cloche.service.events import AttemptEnded, ContestEnded, ScoreRequested
from cloche.service.identity import new_id
from cloche.service.runs import Run

if TYPE_CHECKING:
    from cloche.service.held import Held
    from cloche.service.keys import Caller
    from cloche.service.service import Service

MAX_ATTEMPTS = 16  # undecided, in one sandbox


async def attempt(
    service: Service, caller: Caller, held: Held, code: str, context: str | None, timeout: float | None
) -> tuple[Run, list[AttemptEnded]]:
    """Try code in a branch; the list holds the attempt when the run is over."""
    service.sandboxes.check_timeout(timeout)
    if len(held.attempts) >= MAX_ATTEMPTS:
        raise Refused(f"There are {MAX_ATTEMPTS} undecided attempts.", hint="Keep or discard some of them.")
    tried: list[AttemptEnded] = []

    async def work(run: Run) -> Result:
        run.publish(Started(0))
        async with held.used() as box:
            found = await box.attempt(code, context=context, timeout=timeout)
        identity = new_id("try")
        held.attempts[identity] = found
        tried.append(AttemptEnded(identity, run.id, found.result, found.files, found.variables))
        run.publish_last(tried[0])
        return found.result

    return await service.sandboxes.run(caller, held, work, code, context=context or ""), tried


def find(held: Held, identity: str) -> AsyncAttempt:
    """Take an attempt out of the list of undecided ones."""
    found = held.attempts.pop(identity, None)
    if found is None:
        raise Gone("There is no such attempt, or it was decided on already.")
    return found


async def best_of(
    service: Service,
    caller: Caller,
    held: Held,
    candidates: Sequence[str],
    score: str | None,
    context: str | None,
    timeout: float | None,
    asks: bool,
) -> tuple[Run, list[Best]]:
    """Let candidates compete; without a score expression, the client who follows the run is asked for the scores."""
    service.sandboxes.check_timeout(timeout)
    if score is None and not asks:
        raise InvalidRun("A score is needed.", hint="Give an expression, or accept server-sent events and be asked.")
    found: list[Best] = []

    async def work(run: Run) -> Result:
        async def asked(result: Result) -> Any:
            value = await run.ask(lambda call: ScoreRequested(call, run.id, result))
            try:
                return float(value)
            except (TypeError, ValueError, OverflowError):
                raise InvalidRun(f"A score is a number, not {value!r:.100}.") from None

        run.publish(Started(0))
        async with held.used() as box:
            best = await box.best_of(
                candidates, score if score is not None else cast(Any, asked), context=context, timeout=timeout
            )
        found.append(best)
        run.publish_last(ContestEnded(best))
        return best.result or best.candidates[0].result

    return await service.sandboxes.run(caller, held, work, "\n".join(candidates), context=context or ""), found
