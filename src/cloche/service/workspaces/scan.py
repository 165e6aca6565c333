"""What is in a sandbox's workspace, as the agent inside tells it; checked, for it may say what it likes."""

from __future__ import annotations

import errno
from typing import Any

from cloche.engine import calls
from cloche.engine.box import AsyncBox
from cloche.engine.link import NONSENSE
from cloche.errors import FileProblem
from cloche.service.workspaces.disk import Kept
from cloche.wire import frames

MAX_FILES = 100_000  # with folders and links
LEFT_OUT = ("temp",)  # in the workspace: for what need not be kept

Signature = tuple[int, int, int, int]  # size, modified, changed, inode


class Found:
    """Something in the workspace, as the agent tells of it; checked."""

    __slots__ = ("kept", "path", "signature", "sure")

    def __init__(self, told: Any) -> None:
        path, kind, mode, size, modified, changed, inode, sure, target = told
        numbers = (mode, size, modified, changed, inode)
        if any(type(number) is not int or not -(1 << 62) < number < 1 << 62 for number in numbers):
            raise ValueError("a number makes no sense")
        if kind not in ("file", "directory", "symlink") or not 0 <= mode <= 0o7777 or size < 0:
            raise ValueError("neither a file nor a folder nor a link")
        if not _is_path(path) or (kind == "symlink" and not _is_name(target)):
            raise ValueError("not a path")
        is_file = kind == "file"
        self.path: str = path
        self.kept = Kept(kind, mode, modified if is_file else None, size if is_file else 0, target)
        self.signature: Signature = (size, modified, changed, inode)
        self.sure = sure is True


async def inventory(box: AsyncBox) -> tuple[list[Found], list[str]]:
    """All that there is, and the folders that could not be looked into."""
    operation = await calls.ask(box, {"method": "inventory", "leave_out": LEFT_OUT})
    found: list[Found] = []
    over = False
    try:
        while True:
            kind, payload = await calls.answer(box, operation, "/sandbox")
            told = calls.told(payload)
            over = kind == frames.REPLY
            try:
                if over:
                    if told["hidden"]:
                        raise too_much(f"{int(told['hidden']):,} paths are too long or cannot be read", "Mend them.")
                    return found, [path for path in told["unread"] if _is_path(path)]
                found += map(Found, told["entries"])
            except NONSENSE as problem:
                raise calls.nonsense() from problem
            if len(found) > MAX_FILES:
                raise too_much(f"it has more than {MAX_FILES:,} files", "Delete some, or move them to temp/.")
    finally:
        if over:
            box.link.close(operation)
        else:
            await calls.cancel(box, operation)


def _is_path(path: Any) -> bool:
    return _is_name(path) and all(part not in ("", ".", "..") for part in path.split("/"))


def _is_name(text: Any) -> bool:
    if not isinstance(text, str) or not text or "\0" in text:
        return False
    try:
        return len(text.encode("utf-8", "surrogateescape")) <= 4096
    except UnicodeEncodeError:
        return False


def too_much(what: str, hint: str) -> FileProblem:
    """What to raise for a workspace that is larger than any may be."""
    return FileProblem(
        f"The workspace could not be saved: {what}.", f"{hint} What was saved before is safe.", errno.EDQUOT
    )
