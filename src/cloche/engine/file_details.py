"""Complete descriptions of files, for doors whose clients expect more details than `box.files` gives."""

from __future__ import annotations

from typing import Any

from cloche.engine import agent_requests
from cloche.engine.host_only import on_this_host
from cloche.engine.link import NONSENSE
from cloche.errors import Refused
from cloche.model.files import Details
from cloche.sandbox.checks import checked_path
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.wire import frames

MAX_LISTING = 64 << 20  # bytes of one listing in transit


async def describe(box: AsyncSandbox, path: str) -> Details:
    """Describe the entry at a path; links are not followed."""
    return _details((await _call(box, path, method="stat", path=checked_path(path))).get("entry"))


async def make_folder(box: AsyncSandbox, path: str) -> tuple[bool, Details]:
    """Make a folder and its parents; return whether it is new, and its details."""
    answer = await _call(box, path, method="mkdir", path=checked_path(path))
    return bool(answer.get("created")), _details(answer.get("entry"))


async def move(box: AsyncSandbox, path: str, new_path: str) -> Details:
    """Rename or move a file or folder, and return its details."""
    answer = await _call(box, path, method="rename", path=checked_path(path), new_path=checked_path(new_path))
    return _details(answer.get("entry"))


async def listing(box: AsyncSandbox, path: str, depth: int) -> list[Details]:
    """List everything in a folder and below it, or raise an error."""
    host = on_this_host(box)
    request = {"method": "list", "path": checked_path(path), "depth": depth, "details": True, "most": MAX_LISTING}
    operation = await agent_requests.ask(host, request)
    found: list[Details] = []
    try:
        while True:
            kind, payload = await agent_requests.answer(host, operation, path)
            answer = agent_requests.decoded(payload)
            entries = answer.get("entries")
            if not isinstance(entries, list):
                raise agent_requests.nonsense()
            found += map(_details, entries)
            if answer.get("truncated"):
                raise Refused(f"{path} has more files than fit into one answer.", hint="Ask for one folder in it.")
            if kind == frames.REPLY:
                return found
    finally:
        host.link.close(operation)


async def _call(box: AsyncSandbox, about: str, **request: Any) -> dict[str, Any]:
    return await on_this_host(box).files.call({**request, "details": True}, about)


def _details(entry: Any) -> Details:
    try:
        end = entry.get("leads_to") or {}
        return Details(
            path=str(entry["path"]),
            kind=str(entry["kind"]),
            size=int(entry["size"]),
            mode=int(entry["mode"]),
            modified=float(entry["modified"]),
            uid=int(entry["uid"]),
            gid=int(entry["gid"]),
            attributes={str(name): str(value) for name, value in entry["attributes"].items()},
            end=str(end["path"]) if end else None,
            end_kind=str(end["kind"]) if end else "",
            end_mode=int(end["mode"]) if end else 0,
        )
    except NONSENSE as problem:
        raise agent_requests.nonsense() from problem
