"""Hints have the words of the place where they appear: every text in the source is shown at every door, in turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import cloche
from cloche.model.wording import PLACES, SUBJECTS, worded

SOURCE = Path(cloche.__file__).parent
# How an argument or a method of each interface is recognized.
WORDS = {
    "python": re.compile(
        r"(?<![\w\"`/-])[a-z_]+=(?=[\s.,;:)]|$)|\bbox\.\w|\bSandbox\(|\b[a-z_]+=(?:True|False|None)\b"
    ),
    "http": re.compile(
        r"\b(?:GET|POST|PUT|PATCH|DELETE) [/…]|\"\w+\": (?:true|false|\")|(?<!\w)`(?:timeout|stdin|memory)`"
    ),
    "cli": re.compile(r"(?<![\w-])--[a-z]"),
    "page": re.compile(r"Run options|Limits of this sandbox"),
}
# What a door may say: a model and E2B's clients pass fields as well, but make no requests of ours.
ALLOWED = {"python": "python", "http": "http", "cli": "cli", "page": "page"}
FIELD = re.compile(r"`\w+`")
# The code behind all doors, and the doors whose texts nobody else sees.
SHARED = ("engine", "sandbox", "service", "policy", "walls", "results", "languages", "store", "model")
OWN = {
    "client": "python",
    "cli": "cli",
    "doors/http": "http",
    "doors/websocket.py": "http",
    "doors/mcp": "mcp",
    "doors/e2b": "e2b",
}
# Only callers of the Python library get these, because no door has the arguments that they are about; operators get the
# last one.
EXEMPT = (
    "engine/host_only.py",
    "engine/place.py",
    "model/requirements_file.py",  # the words of pip, whose file it is
    "sandbox/cells.py",
    "sandbox/sandbox.py",
    "sandbox/transfers.py",
    "walls/e2b/wall.py",
    "walls/jail/cgroups.py",
)
OPERATORS = ("Misconfigured", "JournalProblem")  # raised when a server starts, for the person at its command line


def texts(file: Path) -> Iterator[str]:
    """The sentences that an error could show: texts that are no docstring, and not for the operator."""
    tree = ast.parse(file.read_text())
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OPERATORS:
            left_out.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            left_out.update(id(part) for part in node.values)
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "NAME" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if re.search(r"[a-z] [a-z]", text) and text.rstrip().endswith((".", "!", "?")) and "curl: --json" not in text:
            yield text


def foreign(text: str, place: str) -> list[str]:
    """The words of other places in a text as a place shows it."""
    shown = worded(text, place)
    found = [(name, match[0]) for name, pattern in WORDS.items() for match in pattern.finditer(shown)]
    fields = place in ("mcp", "e2b")
    return [word for name, word in found if name != ALLOWED.get(place) and not (fields and FIELD.fullmatch(word))]


def files(part: str) -> list[Path]:
    place = SOURCE / part
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


@pytest.mark.parametrize("place", PLACES)
def test_no_hint_of_the_shared_code_has_the_words_of_another_place(place: str) -> None:
    wrong, count = [], 0
    for file in [file for part in SHARED for file in files(part)]:
        name = file.relative_to(SOURCE).as_posix()
        if name in EXEMPT or name == "model/wording.py":
            continue
        for text in texts(file):
            count += 1
            wrong += [f"{name}: {worded(text, place)!r} says {word!r}" for word in foreign(text, place)]
    assert count > 400  # the sentences are found
    assert wrong == []


def test_a_hint_about_packages_has_the_words_of_each_place() -> None:
    listed, mapped = 'Write packages=["polars", "six"].', 'Write packages={"javascript": ["d3"]}.'
    assert worded(listed, "http") == 'Write "packages": ["polars", "six"].'
    assert worded(worded(mapped, "http"), "python") == mapped
    assert [worded(text, "cli") for text in (listed, mapped)] == ["Write --with polars.", "Write --with npm:d3."]
    assert worded(mapped, "mcp") == 'Write `packages` {"javascript": ["d3"]}.'
    assert worded(listed, "e2b") == "Write pip install polars."


def test_a_door_speaks_in_its_own_words() -> None:
    wrong = [
        f"{file.relative_to(SOURCE)}: {text!r} says {word!r}"
        for part, place in OWN.items()
        for file in files(part)
        for text in texts(file)
        for word in foreign(text, place)
    ]
    assert wrong == []


def test_python_gets_its_words_back_from_a_server() -> None:
    for subject in SUBJECTS:
        if subject.is_named_in_python:
            text = f"Do it with {subject.python}."
            assert worded(worded(text, "http"), "python") == text


def test_only_whole_names_are_replaced() -> None:
    assert worded("Allow more with build_timeout=.", "cli") == "Allow more with --build-timeout."
    assert worded("It was called with timeout=5.", "cli") == "It was called with timeout=5."
    assert worded("GET /v1/runs/run_1 has the result.", "page") == "GET /v1/runs/run_1 has the result."
    assert worded("GET /v1/runs lists your runs.", "python") == "The server lists your runs."
    assert worded("or allow more time with timeout=.", "page") == "or allow more time with “Time limit” in Run options."
