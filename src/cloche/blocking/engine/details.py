# Generated from src/cloche/engine/details.py by scripts/blocking.py: edit that file instead.
"""Files with all that there is to know of them: for doors whose clients expect more than `box.files` tells."""

from __future__ import annotations

from typing import Any

from cloche.blocking.engine import calls
from cloche.blocking.engine.box import Box
from cloche.blocking.engine.link import NONSENSE
from cloche.errors import Refused
from cloche.model.files import Details
from cloche.sandbox.checks import checked_path
from cloche.wire import frames

MAX_LISTING = 64 << 20  # bytes of one listing, on its way here


def describe(box: Box, path: str) -> Details:
    """What is at a path; of a link, the link."""
    told = box.files.call({"method": "stat", "path": checked_path(path), "details": True}, path)
    return _details(told.get("entry"))


def make_folder(box: Box, path: str) -> tuple[bool, Details]:
    """Make a folder and those on the way: whether it is new, and what it is."""
    told = box.files.call({"method": "mkdir", "path": checked_path(path), "details": True}, path)
    return bool(told.get("created")), _details(told.get("entry"))


def move(box: Box, path: str, new_path: str) -> Details:
    """Rename or move a file or folder: what it is now."""
    request = {"method": "rename", "path": checked_path(path), "new_path": checked_path(new_path), "details": True}
    return _details((box.files.call(request, path)).get("entry"))


def listing(box: Box, path: str, depth: int) -> list[Details]:
    """What is in a folder and below it; all of it, or an error."""
    request = {"method": "list", "path": checked_path(path), "depth": depth, "details": True, "most": MAX_LISTING}
    operation = calls.ask(box, request)
    found: list[Details] = []
    try:
        while True:
            kind, payload = calls.answer(box, operation, path)
            told = calls.told(payload)
            entries = told.get("entries")
            if not isinstance(entries, list):
                raise calls.nonsense()
            found += map(_details, entries)
            if told.get("truncated"):
                raise Refused(f"There is more in {path} than can be told at once.", hint="Ask for one folder in it.")
            if kind == frames.REPLY:
                return found
    finally:
        box.link.close(operation)


def _details(told: Any) -> Details:
    try:
        end = told.get("leads_to") or {}
        return Details(
            path=str(told["path"]),
            kind=str(told["kind"]),
            size=int(told["size"]),
            mode=int(told["mode"]),
            modified=float(told["modified"]),
            uid=int(told["uid"]),
            gid=int(told["gid"]),
            attributes={str(name): str(value) for name, value in told["attributes"].items()},
            end=str(end["path"]) if end else None,
            end_kind=str(end["kind"]) if end else "",
            end_mode=int(end["mode"]) if end else 0,
        )
    except NONSENSE as problem:
        raise calls.nonsense() from problem
