"""Compares two states of a session: which variables and files differ, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from cloche.engine import inspection
from cloche.errors import FileProblem, Gone, InvalidRun, Refused
from cloche.sandbox.contexts import AsyncContext
from cloche.sandbox.sandbox import AsyncSandbox

MAX_FILES = 200  # in one comparison
MAX_TEXT = 200 << 10  # bytes of one file
MAX_TOTAL = 4 << 20  # bytes of all files
_COPY = re.compile(r"/tmp/branches/\d+")


@dataclass(frozen=True, slots=True)
class _State:
    """The session at one checkpoint."""

    variables: dict[str, dict[str, Any]]
    folder: str  # where the files of this state can be read


@dataclass(slots=True)
class _Differences:
    """The files that differ, as many as fit."""

    room: int = MAX_TOTAL
    truncated: bool = False
    items: list[dict[str, Any]] = field(default_factory=list)


async def compare(box: AsyncSandbox, before: str | None, after: str | None, context: str | None) -> dict[str, Any]:
    """The variables and files that differ between two checkpoints; None is the present."""
    if before == after:
        raise InvalidRun("These are the same.", hint="Name two different checkpoints, or one and null for the present.")
    where = await _source(box, context)
    changed = [await _changes(box, which) for which in (before, after)]
    branches: list[AsyncContext] = []
    try:
        sides = []
        for which in (before, after):
            copies = which is not None and any(changed)
            branches.append(await box.checkpoints.branch(which, where, "copy" if copies else "shared"))
            sides.append(await _state(box, branches[-1]))
        files = await _files(box, sides[0], sides[1], changed)
        return {
            "variables": _variables(sides[0].variables, sides[1].variables),
            "files": files.items,
            "truncated": files.truncated,
        }
    finally:
        for branch in branches:
            await box.contexts.remove(branch)


async def _source(box: AsyncSandbox, context: str | None) -> AsyncContext:
    where = box.contexts.default("python") if context is None else box.contexts.get(context)
    if where.language != "python":
        raise InvalidRun(f"Only variables of Python can be compared, and {where.id} is for {where.language}.")
    if where.cell is not None and not where.cell.over:
        raise Refused("Code is running.", hint="Wait for its end, or stop it.")
    await box.open()
    await box.contexts.ensure(where)
    return where


async def _changes(box: AsyncSandbox, which: str | None) -> set[str]:
    """The files that differ between a checkpoint and the present."""
    if which is None:
        return set()
    changes = await inspection.changes(box, box.checkpoints.get(which))
    return {*changes.created, *changes.changed, *changes.removed}


async def _state(box: AsyncSandbox, branch: AsyncContext) -> _State:
    copy = _COPY.match(branch.cwd or "")
    return _State(await inspection.variables(box, branch), copy[0] if copy else "/sandbox")


def _variables(old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        if one is not None and other is not None and one.get("digest") == other.get("digest"):
            continue
        found.append({"name": name[:200], "kind": _kind(one, other), "before": _value(one), "after": _value(other)})
    return found


def _value(facts: dict[str, Any] | None) -> dict[str, str] | None:
    return None if facts is None else {name: str(facts.get(name))[:200] for name in ("type", "shown")}


async def _files(box: AsyncSandbox, old: _State, new: _State, changed: list[set[str]]) -> _Differences:
    found = _Differences()
    # A file that matches the live copy at both checkpoints did not change between them, and is not looked at.
    for path in sorted(changed[0] | changed[1]):
        if len(found.items) >= MAX_FILES:
            found.truncated = True
            break
        one, other = await _contents(box, old.folder, path), await _contents(box, new.folder, path)
        if one == other and (one is None or one[0] <= MAX_TEXT or path in changed[0] & changed[1]):
            continue
        found.items.append(
            {"path": path, "kind": _kind(one, other), "before": _shown(one, found), "after": _shown(other, found)}
        )
    return found


async def _contents(box: AsyncSandbox, folder: str, path: str) -> tuple[int, bytes] | None:
    """The size and the beginning of a file; None where the path is missing or not a file."""
    place = f"{folder}/{path}"
    if path.startswith("/"):  # outside of the workspace; a copy of the state has such files beside it
        place = f"{folder}.root{path}" if _COPY.match(folder) else path
    try:
        entry = await box.files.stat(place)
        return (entry.size, await box.files.read(place, length=MAX_TEXT)) if entry.kind == "file" else None
    except (FileProblem, Gone):
        return None


def _shown(contents: tuple[int, bytes] | None, found: _Differences) -> dict[str, Any] | None:
    if contents is None:
        return None
    size, data = contents
    text = None
    if size <= MAX_TEXT and len(data) <= found.room and b"\0" not in data:
        try:
            text = data.decode()
            found.room -= len(data)
        except UnicodeDecodeError:
            pass
    return {"size": size, "text": text}


def _kind(one: object | None, other: object | None) -> str:
    return "created" if one is None else "removed" if other is None else "changed"
