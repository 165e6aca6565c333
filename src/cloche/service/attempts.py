"""Attempts and contests on somebody's behalf: runs whose state is kept or thrown away afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.result import Result
from cloche.sandbox.attempts import AsyncAttempt
from cloche.service.identity import new_id
from cloche.service.runs import Run
from cloche.service.shapes import best_json, changes_json, result_json

if TYPE_CHECKING:
    from cloche.policy.caller import Caller
    from cloche.service.held import Held
    from cloche.service.service import Service

MAX_ATTEMPTS = 16  # undecided, in one sandbox


async def attempt(
    service: Service, caller: Caller, held: Held, code: str, context: str | None, timeout: float | None
) -> tuple[Run, list[dict[str, Any]]]:
    """Try code in a branch; what was tried is in the list when the run is over."""
    service.sandboxes.check_timeout(timeout)
    if len(held.attempts) >= MAX_ATTEMPTS:
        raise Refused(f"There are {MAX_ATTEMPTS} undecided attempts.", hint="Keep or discard some of them.")
    tried: list[dict[str, Any]] = []

    async def work(run: Run) -> Result:
        run.say("started", {"run_id": run.id, "pid": 0})
        async with held.used() as box:
            found = await box.attempt(code, context=context, timeout=timeout)
        identity = new_id("try")
        held.attempts[identity] = found
        changes = changes_json(found.files, found.variables)
        tried.append({"id": identity, "result": result_json(found.result, run.id), **changes})
        run.say_last("end", {"attempt": tried[0]})
        return found.result

    return await service.sandboxes.run(caller, held, work, code, context=context or ""), tried


def find(held: Held, identity: str) -> AsyncAttempt:
    """An attempt that is to be decided on, now."""
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
) -> tuple[Run, list[dict[str, Any]]]:
    """Let candidates compete; without an expression, whoever follows the run is asked for the scores."""
    service.sandboxes.check_timeout(timeout)
    if score is None and not asks:
        raise InvalidRun("A score is needed.", hint="Give an expression, or accept server-sent events and be asked.")
    found: list[dict[str, Any]] = []

    async def work(run: Run) -> Result:
        async def asked(result: Result) -> Any:
            value = await run.ask("score", {"result": result_json(result, run.id)})
            try:
                return float(value)
            except (TypeError, ValueError, OverflowError):
                raise InvalidRun(f"A score is a number, not {value!r:.100}.") from None

        run.say("started", {"run_id": run.id, "pid": 0})
        async with held.used() as box:
            best = await box.best_of(
                candidates, score if score is not None else cast(Any, asked), context=context, timeout=timeout
            )
        found.append(best_json(best))
        run.say_last("end", {"best": found[0]})
        return best.result or best.candidates[0].result

    return await service.sandboxes.run(caller, held, work, "\n".join(candidates), context=context or ""), found
