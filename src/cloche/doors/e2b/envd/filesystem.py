"""E2B's `filesystem.Filesystem`: describes, makes, moves and removes files and folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableSequence
from datetime import UTC, datetime
from stat import filemode
from typing import Any

from cloche.doors.e2b.envd import users
from cloche.doors.e2b.envd.call import Call
from cloche.doors.e2b.envd.connect import ConnectProblem
from cloche.errors import FileMissing, FileProblem
from cloche.io.tasks import off_loop
from cloche.model.files import Details

METADATA = "e2b."  # prefix of the file attributes that clients see as metadata
_TYPES = {"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY"}
_LETTERS = {"directory": "d", "symlink": "L", "file": "-"}
_EXISTS, _NO_FOLDER = 17, 20
_ENTRY = 200  # bytes of a usual entry
_LATEST = 253_402_300_799  # the last second that a timestamp can express; a program can give its files any time
_AT_ONCE = 1000  # entries that are freed before other threads have their turn


def entry(found: Details) -> dict[str, Any]:
    """Return a file in E2B's form; a link has the type of its target."""
    is_link = found.kind == "symlink"
    fields: dict[str, Any] = {
        "name": found.path.rpartition("/")[2] or "/",
        "type": _TYPES.get(found.end_kind if is_link else found.kind, "FILE_TYPE_UNSPECIFIED"),
        "path": found.path,
        "size": str(found.size),
        "mode": (found.end_mode if is_link else found.mode) & 0o777,
        "permissions": _LETTERS.get(found.kind, "-") + filemode(found.mode)[1:],
        "owner": users.owner(found.uid),
        "group": users.group(found.gid),
        "modifiedTime": _moment(found.modified),
    }
    if is_link:
        fields["symlinkTarget"] = found.end if found.end is not None else found.path
    if metadata := metadata_of(found.attributes):
        fields["metadata"] = metadata
    return fields


def metadata_of(attributes: dict[str, str]) -> dict[str, str]:
    """Return the metadata that clients have set on a file."""
    return {name[len(METADATA) :]: value for name, value in attributes.items() if name.startswith(METADATA)}


def _moment(when: float) -> str:
    return (
        datetime.fromtimestamp(min(max(when, 0), _LATEST), UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def path_in(call: Call, request: dict[str, Any], name: str = "path") -> str:
    """Return a path in a message as an absolute path."""
    path = request.get(name) or ""
    if not isinstance(path, str):
        raise ConnectProblem("invalid_argument", f"{name} is not a text")
    return call.user.resolve(path)


async def stat(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    return {"entry": entry(await call.service.files.describe(call.caller, call.identity, path_in(call, request)))}


async def list_dir(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    depth = request.get("depth") or 1
    if type(depth) is not int or depth < 1:
        raise ConnectProblem("invalid_argument", "depth should be at least one")
    path = path_in(call, request)
    entries = await call.service.files.describe_all(call.caller, call.identity, path, depth=depth)
    return await off_loop(len(entries) * _ENTRY, lambda: {"entries": _translated(entries)})


def _translated(entries: MutableSequence[Details]) -> list[dict[str, Any]]:
    """Return the entries in E2B's form.  Frees them as well: to free 300,000 would hold the event loop."""
    translated = [entry(found) for found in entries]
    while entries:
        del entries[-_AT_ONCE:]
    return translated


async def make_dir(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Make a folder and its missing parents."""
    path = path_in(call, request)
    try:
        is_new, found = await call.service.files.make_folder(call.caller, call.identity, path)
    except FileProblem as problem:
        if problem.errno in (_EXISTS, _NO_FOLDER):
            raise ConnectProblem("invalid_argument", f"path already exists but it is not a directory: {path}") from None
        raise
    if not is_new:
        raise ConnectProblem("already_exists", f"directory already exists: {path}")
    return {"entry": entry(found)}


async def move(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    old, new = path_in(call, request, "source"), path_in(call, request, "destination")
    found = await call.service.files.rename_described(call.caller, call.identity, old, new)
    return {"entry": entry(found)}


async def remove(call: Call, request: dict[str, Any]) -> dict[str, Any]:
    """Remove a file, or a folder with its contents; a missing one is no error."""
    path = path_in(call, request)
    try:
        await call.service.files.remove(call.caller, call.identity, path)
    except FileMissing:
        return {}
    return {}


CALLS: dict[str, Callable[[Call, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "Stat": stat,
    "ListDir": list_dir,
    "MakeDir": make_dir,
    "Move": move,
    "Remove": remove,
}
