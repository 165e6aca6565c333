"""An agent may send anything: the engine ends the sandbox or reports an error, and stays quick, small and well."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import thread_time

import pytest
from tests.fuzz.agents import Frame, PlayingWall, RecordingWall
from tests.fuzz.budget import SECONDS, seeds
from tests.fuzz.coverage import Lines
from tests.fuzz.mutations import Mutator

import cloche
from cloche.walls.registry import wall
from cloche.wire import frames

CORPUS = Path(__file__).parent / "corpus" / "frames"
MOST_CPU_S = 3.0  # of the engine for one conversation; the longest takes a tenth of a second when it is valid
Parts = list[tuple[int, bytes]]


async def _cells(box: cloche.AsyncSandbox) -> None:
    await box.run("import sys; x = 1; print(x); sys.stderr.write('é'); x")
    await box.run("import pandas; pandas.DataFrame({'a': [1, 2]})")
    await box.run("from IPython.display import HTML, display; display(HTML('<b>x</b>')); 1 / 0")
    async for _ in box.stream("for n in range(3): print(n)"):
        pass


async def _programs(box: cloche.AsyncSandbox) -> None:
    await box.run_program("open('/sandbox/output/x.txt', 'w').write('x'); print(1); 1/0")
    await box.run_program("int main(void){return 3}", language="c")


async def _files(box: cloche.AsyncSandbox) -> None:
    await box.files.write("a/b.txt", "text")
    await box.files.read("a/b.txt")
    await box.files.list(".", depth=3)
    await box.files.stat("a/b.txt")
    await box.files.rename("a/b.txt", "c")
    await box.files.disk()
    async with await box.files.watch() as watch:
        await box.files.write("new", "x")
        await watch.next_change(5)
    await box.files.remove("c")


async def _commands(box: cloche.AsyncSandbox) -> None:
    await box.commands.run("echo out; echo err >&2; exit 3")
    process = await box.commands.start("cat")
    await process.write("hello\n")
    await process.close_stdin()
    await process.wait()


async def _checkpoints(box: cloche.AsyncSandbox) -> None:
    await box.run("y = 1")
    await box.checkpoint("here")
    await box.run("y = 2")
    await box.restore("here")
    context = await box.contexts.create()
    await box.run("z = 1", context=context)
    await (await box.attempt("y = 3")).discard()


CONVERSATIONS: dict[str, Callable[[cloche.AsyncSandbox], Awaitable[None]]] = {
    "cells": _cells,
    "programs": _programs,
    "files": _files,
    "commands": _commands,
    "checkpoints": _checkpoints,
}


async def _record(name: str) -> list[Frame]:
    recorder = RecordingWall(wall())
    async with cloche.AsyncSandbox(wall=recorder) as box:
        await CONVERSATIONS[name](box)
    return recorder.received


async def _play(name: str, parts: Parts) -> str:
    """Have the engine talk to an agent that sends these parts; return what is wrong with its behaviour."""
    player = PlayingWall(parts)
    began = thread_time()
    problem = ""
    try:
        async with asyncio.timeout(60), cloche.AsyncSandbox(wall=player, timeout=5) as box:
            await CONVERSATIONS[name](box)
    except cloche.ClocheError:
        pass  # the errors of the public interface
    except Exception as error:
        problem = f"{type(error).__name__}: {error!s:.300}"
    finally:
        await player.close()
    if (spent := thread_time() - began) > MOST_CPU_S:
        problem = f"{spent:.1f} s of CPU time"
    return problem


def _encoded(recorded: list[Frame]) -> Parts:
    return [(number, frames.encode(number, kind, payload)) for number, kind, payload in recorded]


def _mutated(mutator: Mutator, recorded: list[Frame]) -> Parts:
    """Change one or a few frames of a recording: their payload, kind, operation, order or number."""
    changed = list(recorded)
    parts: Parts = []
    for _ in range(mutator.random.choice((1, 1, 2, 4))):
        place = mutator.random.randrange(len(changed))
        number, kind, payload = changed[place]
        match mutator.random.randrange(9):
            case 0:
                del changed[place]
                changed = changed or list(recorded)
            case 1:
                changed.insert(place, changed[mutator.random.randrange(len(changed))])
            case 2:
                changed[place] = number, mutator.random.choice(sorted(frames.FROM_AGENT)), payload
            case 3:
                changed[place] = (number + mutator.random.choice((-1, 1, 2**31))) % 2**32, kind, payload
            case 4:
                changed[place] = number, kind, mutator.data(payload)[: frames.MAX_PAYLOAD]
            case _:
                changed[place] = number, kind, _changed_payload(mutator, payload)
    parts = _encoded(changed)
    if mutator.random.random() < 0.1:
        place = mutator.random.randrange(len(parts))
        parts[place] = parts[place][0], mutator.data(parts[place][1])
    known = {number for number, _, _ in recorded}
    return [(number if number in known else 0, data) for number, data in parts]  # nobody waits for an unknown one


def _changed_payload(mutator: Mutator, payload: bytes) -> bytes:
    """Keep JSON valid: what is not JSON never gets past the decoder."""
    try:
        value = json.loads(payload)
    except ValueError:
        return mutator.data(payload)
    changed = json.dumps(mutator.json(value), allow_nan=True).encode("utf-8", "surrogatepass")
    return changed if len(changed) <= frames.MAX_PAYLOAD else payload


@pytest.mark.timeout(SECONDS + 120)
async def test_no_agent_breaks_the_engine(jail: None) -> None:
    """Guided by coverage: a mutation that reaches new lines of the engine is mutated further."""
    recordings = {name: await _record(name) for name in CONVERSATIONS}
    for name, recorded in recordings.items():
        assert await _play(name, _encoded(recorded)) == "", name
    promising: list[tuple[str, list[Frame]]] = list(recordings.items())
    lines = Lines("/cloche/engine/", "/cloche/wire/", "/cloche/results/", "/cloche/sandbox/")
    played = 0
    for seed in seeds():
        mutator = Mutator(seed)
        name, recorded = mutator.random.choice(promising)
        parts = _mutated(mutator, recorded)
        before = len(lines.seen)
        with lines:
            problem = await _play(name, parts)
        assert not problem, f"{problem}\n{_keep(name, parts)}"
        played += 1
        if len(lines.seen) > before and len(promising) < 500:
            promising.append((name, _decoded(parts) or recorded))
    assert played > SECONDS  # slower than one in a second would find nothing
    print(f"{played} conversations, {len(promising)} promising, {len(lines.seen)} lines")


@pytest.mark.parametrize("found", sorted(CORPUS.glob("*.json")), ids=lambda path: str(path.stem))
async def test_past_findings_stay_mended(found: Path) -> None:
    kept = json.loads(found.read_text())
    assert await _play(kept["conversation"], [(number, bytes.fromhex(data)) for number, data in kept["parts"]]) == ""


def _decoded(parts: Parts) -> list[Frame]:
    decoder = frames.Decoder(frames.FROM_AGENT)
    found: list[Frame] = []
    try:
        for _, data in parts:
            found += decoder.feed(data)
    except (frames.Garbled, struct.error):
        pass
    return found


def _keep(name: str, parts: Parts) -> str:
    """Write the conversation down, so that the finding can be played again."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"conversation": name, "parts": [(number, data.hex()) for number, data in parts]})
    place = CORPUS / f"{name}-{abs(hash(text)) % 10**8}.json"
    place.write_text(text)
    return f"The conversation is kept as {place.name} in {CORPUS.parent.name}/{CORPUS.name}; commit it with the mend."
