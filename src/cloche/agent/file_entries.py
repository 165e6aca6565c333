"""Describes files, folders and links for replies."""

from __future__ import annotations

import os
import stat as modes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_ATTRIBUTES = 64 << 10  # bytes of one file's attributes in a reply
_USERS = "user."


def entry(path: str) -> dict[str, Any]:
    """Describe the file, folder or link at a path, without following a link."""
    return entry_with(path, os.lstat(path))


def entry_with(path: str, status: os.stat_result) -> dict[str, Any]:
    """Describe a path whose status is known."""
    kind = "other"
    for test, name in ((modes.S_ISREG, "file"), (modes.S_ISDIR, "directory"), (modes.S_ISLNK, "symlink")):
        if test(status.st_mode):
            kind = name
    found: dict[str, Any] = {
        "path": path,
        "kind": kind,
        "size": status.st_size,
        "mode": modes.S_IMODE(status.st_mode),
        "modified": status.st_mtime,
        "uid": status.st_uid,
        "gid": status.st_gid,
    }
    if kind == "symlink":
        found["target"] = os.readlink(path)
    return found


def describe(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Describe a path, with attributes and the link's target if the request asks for details."""
    found = entry(path)
    if request.get("details"):
        found["attributes"] = _attributes(path)
        if found["kind"] == "symlink":
            found["leads_to"] = _leads_to(path)
    return found


def _leads_to(path: str) -> dict[str, Any] | None:
    """Describe the end of a link; None when there is nothing."""
    try:
        end = entry(os.path.realpath(path, strict=True))
    except OSError:
        return None
    return {name: end[name] for name in ("path", "kind", "mode")}


def _attributes(path: str) -> dict[str, str]:
    """Return a file's xattrs in the `user` namespace, by name."""
    found: dict[str, str] = {}
    room = MAX_ATTRIBUTES
    try:
        for name in os.listxattr(path, follow_symlinks=False):
            if name.startswith(_USERS):
                value = os.getxattr(path, name, follow_symlinks=False)
                room -= len(name) + len(value)
                if room < 0:
                    break
                found[name.removeprefix(_USERS)] = value.decode("utf-8", "surrogateescape")
    except OSError:
        pass  # the file system does not support attributes
    return found


def set_attributes(file: int, attributes: dict[str, str]) -> None:
    """Make these the file's only attributes in the `user` namespace."""
    try:
        known = os.listxattr(file)
    except OSError:
        known = []
    for name in known:
        if name.startswith(_USERS) and name.removeprefix(_USERS) not in attributes:
            os.removexattr(file, name)
    for name, value in attributes.items():
        os.setxattr(file, _USERS + name, value.encode("utf-8", "surrogateescape"))
