"""Runs real notebooks and documents cell by cell, each in one session, and compares the outputs with theirs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.corpora.folder import CORPORA, skip_without

import cloche
from cloche.model.events import End, Shown

CORPUS = CORPORA / "notebooks" / "public.json"
CONVERSATIONS = json.loads(CORPUS.read_text())["conversations"] if CORPUS.exists() else []
IMAGES = ("image/png", "image/jpeg", "image/svg+xml")


def listed(wanted: Any) -> list[str]:
    return [wanted] if isinstance(wanted, str) else list(wanted)


def squeezed(text: str) -> str:
    # IPython shows only the name of a class; documents show it as Python's own prompt does.
    return re.sub(r"\s+", "", re.sub(r"<class '(.*?)'>", r"\1", text))


def problems(expect: dict[str, Any], result: cloche.Result, events: list[Any]) -> list[str]:
    """List the differences to the document."""
    text = result.text or ""
    images = sum(any(kind in shown.mime for kind in IMAGES) for shown in result.results)
    everything = "\n".join([result.stdout, *(str(shown.text) for shown in result.results)])
    arrival = dict(events)
    checks: dict[str, Callable[[Any], bool]] = {
        "doc": lambda doc: squeezed(doc) in squeezed(everything),
        "error": lambda error: result.error is not None and result.error.name == error["ename"],
        "no_result": lambda _: not any(shown.is_main for shown in result.results),
        "silent": lambda _: not result.stdout and not result.results,
        "result": lambda wanted: text == wanted,
        "result_has": lambda parts: all(part in text for part in listed(parts)),
        "result_re": lambda pattern: re.search(pattern, text, re.S) is not None,
        "stdout": lambda wanted: result.stdout == wanted,
        "stdout_has": lambda parts: all(part in result.stdout for part in listed(parts)),
        "stdout_re": lambda pattern: re.search(pattern, result.stdout) is not None,
        "stdout_lines": lambda count: len(result.stdout.splitlines()) == count,
        "stderr": lambda wanted: result.stderr == wanted,
        "stderr_has": lambda parts: all(part in result.stderr for part in listed(parts)),
        "images": lambda count: images == count,
        "displays": lambda count: len(result.results) == count,
        "rows": lambda count: any(str(shown.html).count("<tr") == count and shown.table for shown in result.results),
        "mime": lambda wanted: any(
            all(p in str(s.mime.get(wanted[0], "")) for p in wanted[1:]) for s in result.results
        ),
        "order": lambda wanted: [f"{kind}:{what}" for kind, what in events if kind in ("display", "update")] == wanted,
        "streamed": lambda wanted: arrival.get("first", 1e9) < wanted[1],
    }
    return [f"{kind} {wanted!r:.200}" for kind, wanted in expect.items() if not checks[kind](wanted)]


def test_the_corpus_is_complete() -> None:
    if os.environ.get("CI") and not CORPUS.exists():
        pytest.fail("The corpus of notebooks is missing: set CLOCHE_CORPORA to the folder of the corpora.")
    skip_without(CORPUS)
    assert len(CONVERSATIONS) > 40


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: conversation["id"])
def test_a_conversation_goes_as_its_document_shows(jail: None, conversation: dict[str, Any]) -> None:
    with cloche.Sandbox(memory="1G", timeout=60) as box:
        for number, cell in enumerate(conversation["cells"]):
            expect = cell.get("expect") or {}
            result, events = run(box, cell)
            wrong = problems(expect, result, events)
            if result.error is not None and "error" not in expect:
                wrong.append(f"{result.error}\n{result.error.traceback}")
            assert not wrong, f"cell {number}:\n{cell['code']}\n\n{wrong}\n\n{result}"


def run(box: cloche.Sandbox, cell: dict[str, Any]) -> tuple[cloche.Result, list[tuple[str, Any]]]:
    """Run a cell, and record the order of its displays and when its first output came."""
    from time import monotonic

    begin = monotonic()
    events: list[tuple[str, Any]] = []
    answers = "".join(f"{line}\n" for line in cell["stdin"]) if "stdin" in cell else None
    result: cloche.Result | None = None
    for event in box.stream(cell["code"], stdin=answers):
        if event.kind == "stdout" and not events:
            events.append(("first", monotonic() - begin))
        if isinstance(event, Shown) and not event.result.is_main:
            events.append(("update" if event.update else "display", event.result.text))
        if isinstance(event, End):
            result = event.result
    assert result is not None
    return result, events
