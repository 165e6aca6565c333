"""Lists the files of a sandbox.  The agent inside reports them, and is not trusted: each is checked."""

from __future__ import annotations

import errno
from typing import Any

from cloche.engine import workspace
from cloche.errors import FileProblem
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.workspaces.disk import SavedEntry

MAX_FILES = 100_000  # with folders and links
LEFT_OUT = ("temp",)  # folders of the workspace that are not saved
# Entries of the root that are not saved: the system, the workspace itself, and files that are not meant to last.
_SYSTEM = (
    *("bin", "boot", "data", "dev", "etc", "lib", "lib32", "lib64", "libx32", "opt", "proc", "run", "sandbox", "sbin"),
    *("node_modules", "sys", "tmp", "usr"),
)
# In every sandbox.  The first is the workspace once more: a program can move it away and make a folder there, but
# the files in that folder would fall into the workspace of the next sandbox.
_WORKSPACE_AGAIN = "/home/user"
LINKS = ("/mnt/data", "/var/tmp")
_USUAL = ("/home", _WORKSPACE_AGAIN, "/mnt", "/root", "/var", *LINKS)

Signature = tuple[int, int, int, int]  # size, modified, changed, inode


class ScannedEntry:
    """A file, folder or link that the agent reported, checked."""

    __slots__ = ("entry", "path", "signature", "sure")

    def __init__(self, fields: Any) -> None:
        path, kind, mode, size, modified, changed, inode, sure, target = fields
        numbers = (mode, size, modified, changed, inode)
        if any(type(number) is not int or not -(1 << 62) < number < 1 << 62 for number in numbers):
            raise ValueError("a number makes no sense")
        if kind not in ("file", "directory", "symlink") or not 0 <= mode <= 0o7777 or size < 0:
            raise ValueError("neither a file nor a folder nor a link")
        if not _is_path(path) or (kind == "symlink" and not _is_name(target)):
            raise ValueError("not a path")
        is_file = kind == "file"
        self.path: str = path
        self.entry = SavedEntry(kind, mode, modified if is_file else None, size if is_file else 0, target)
        self.signature: Signature = (size, modified, changed, inode)
        self.sure = sure is True


async def inventory(box: AsyncSandbox) -> tuple[list[ScannedEntry], list[str]]:
    """List all entries, and the folders that could not be read."""
    listed = await workspace.inventory(box, ScannedEntry, MAX_FILES, leave_out=LEFT_OUT, system=_SYSTEM, usual=_USUAL)
    if listed.is_cut:
        raise too_much(f"it has more than {MAX_FILES:,} files", "Delete some, or move them to temp/.")
    if listed.hidden:
        raise too_much(f"{listed.hidden:,} paths are too long or cannot be read", "Mend them.")
    entries = [entry for entry in listed.entries if not entry.path.startswith(f"{_WORKSPACE_AGAIN}/")]
    return entries, [path for path in listed.unread if _is_path(path)]


def _is_path(path: Any) -> bool:
    """Say whether it is a path below /sandbox, or the absolute path of a file elsewhere that can be saved."""
    if not _is_name(path):
        return False
    parts = path.removeprefix("/").split("/")
    return all(part not in ("", ".", "..") for part in parts) and (path[0] != "/" or parts[0] not in _SYSTEM)


def _is_name(text: Any) -> bool:
    if not isinstance(text, str) or not text or "\0" in text:
        return False
    try:
        return len(text.encode("utf-8", "surrogateescape")) <= 4096
    except UnicodeEncodeError:
        return False


def too_much(what: str, hint: str) -> FileProblem:
    """The error to raise for a workspace that exceeds a limit."""
    return FileProblem(
        f"The workspace could not be saved: {what}.", f"{hint} What was saved before is safe.", errno.EDQUOT
    )
