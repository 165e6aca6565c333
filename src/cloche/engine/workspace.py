"""Lists, reads and lays out the whole workspace of a sandbox of this host, for a service that saves it."""

from __future__ import annotations

from _collections_abc import Callable, Sequence
from typing import Any

from cloche.engine import agent_requests
from cloche.engine.host_only import on_this_host
from cloche.engine.link import NONSENSE
from cloche.engine.transfers import AsyncHostReader
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.sandbox.transfers import AsyncReading
from cloche.wire import frames


class WorkspaceEntries:
    """The contents of a workspace."""

    def __init__(self) -> None:
        self.entries: list[Any] = []  # as `parse` has made them
        self.unread: list[Any] = []  # folders that could not be read
        self.hidden = 0  # paths that are too long or cannot be read
        self.is_cut = False  # whether there are more entries than were requested


async def inventory(
    box: AsyncSandbox, parse: Callable[[Any], Any], most: int, **choice: Sequence[str]
) -> WorkspaceEntries:
    """List all files of a sandbox, until there are more than `most` entries.

    Paths in /sandbox are relative to it, and the others absolute.  `choice` may have `leave_out` (names in /sandbox),
    `system` (names in the root) and `usual` (paths of which only the content is listed).
    `parse` makes an entry of [path, kind, mode, size, modified, changed, inode, is_sure, target].  The agent is not
    trusted, so `parse` raises ValueError for a malformed entry.
    """
    host, found = on_this_host(box), WorkspaceEntries()
    operation = await agent_requests.ask(host, {"method": "inventory", **choice})
    over = False
    try:
        while not over and not found.is_cut:
            kind, payload = await agent_requests.answer(host, operation, "/sandbox")
            answer = agent_requests.decoded(payload)
            over = kind == frames.REPLY
            try:
                if over:
                    found.hidden, found.unread = int(answer["hidden"]), list(answer["unread"])
                else:
                    found.entries += map(parse, answer["entries"])
            except NONSENSE as problem:
                raise agent_requests.nonsense() from problem
            found.is_cut = len(found.entries) > most
        return found
    finally:
        if over:
            host.link.close(operation)
        else:
            await agent_requests.cancel(host, operation)


def contents(box: AsyncSandbox, path: str, length: int) -> AsyncReading:
    """Read a file that the inventory has listed, by its path there; links on the way are not followed."""
    request = {"method": "contents", "path": path, "offset": 0, "length": length}
    return AsyncReading(AsyncHostReader(on_this_host(box), request))


async def arrange(box: AsyncSandbox, **steps: Sequence[Any]) -> None:
    """Lay out a workspace: `folders` (paths), `links` (path, target), `settled` (path, mode, modified)."""
    await on_this_host(box).files.call({"method": "arrange", **steps}, "the workspace")
