"""Writes the files of a workspace into a fresh sandbox, through the agent inside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from json import dumps
from pathlib import Path
from typing import Any

from cloche.engine import workspace
from cloche.errors import FileMissing, InvalidRun, SandboxFailed
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service.workspaces.disk import About, Contents, Damaged, Tree
from cloche.service.workspaces.parallel import in_parallel
from cloche.service.workspaces.scan import LEFT_OUT, LINKS

log = logging.getLogger("cloche.workspaces")

_FRAME = 256 << 10  # characters of one request


class WorkspaceRestorer:
    """Writes the saved entries of one workspace into one sandbox."""

    def __init__(self, box: AsyncSandbox, folder: Path, about: About, tree: Tree) -> None:
        self._box, self._folder, self._about, self._tree = box, folder, about, tree

    async def fill(self, mounted: Sequence[str]) -> None:
        """Write all saved entries; `mounted` names the host's folders in the sandbox, which stay as they are."""
        self._check_room(mounted)
        if not self._tree:
            return
        await self._clear(mounted)
        files = [path for path, entry in self._tree.items() if entry.kind == "file"]
        folders = [path for path, entry in self._tree.items() if entry.kind == "directory"]
        try:
            for batch in _batches(folders):
                await workspace.arrange(self._box, folders=batch)
            await in_parallel(files, self._put)
            links = [[path, entry.content] for path, entry in self._tree.items() if entry.kind == "symlink"]
            for batch in _batches(links):  # after the files, so that no file is written through a link
                await workspace.arrange(self._box, links=batch)
            settled = [[path, self._tree[path].mode, self._tree[path].modified] for path in files]
            deepest_first = sorted(folders, key=lambda path: path.count("/"), reverse=True)
            settled += [[path, self._tree[path].mode, None] for path in deepest_first]
            for batch in _batches(settled):
                await workspace.arrange(self._box, settled=batch)
        except (Damaged, FileNotFoundError) as problem:
            if isinstance(problem, FileMissing):
                raise
            log.error("workspace %s cannot be opened: %s", self._about.id, problem)
            raise SandboxFailed("The workspace is damaged.", hint="The server's log says more.") from problem

    def _check_room(self, mounted: Sequence[str]) -> None:
        about = self._about
        if about.bytes > self._box.limits.disk_bytes:
            raise InvalidRun(
                f"The workspace has {about.bytes:,} bytes, and the sandbox's disk is smaller.",
                hint="Allow more with disk=.",
            )
        for target in mounted:
            name = target.removeprefix("/sandbox/").rstrip("/")
            below = (path for path, entry in self._tree.items() if path.startswith(f"{name}/"))
            path = name if name in self._tree and self._tree[name].kind != "directory" else next(below, None)
            if path is not None:
                raise InvalidRun(f"The workspace has {path}, and a folder would be mounted over it.")

    async def _clear(self, mounted: Sequence[str]) -> None:
        """Remove the folders and links that every new sandbox has but the workspace does not."""
        for link in LINKS:
            # If it was a folder, its files must not go where the link leads.
            if any(path.startswith(f"{link}/") for path in self._tree):
                await self._box.files.remove(link)
        needed = {target.removeprefix("/sandbox/").partition("/")[0] for target in mounted}
        for present in await self._box.files.list():
            if present.name in needed or present.name in LEFT_OUT:
                continue
            saved = self._tree.get(present.name)
            if saved is None or saved.kind != present.kind:
                await self._box.files.remove(present.path)

    async def _put(self, path: str) -> None:
        entry = self._tree[path]
        contents = Contents(self._folder, entry.content or "")
        try:
            async with self._box.files.write_stream(
                path if path[0] == "/" else f"/sandbox/{path}", mode=0o600
            ) as writing:
                while not contents.over:
                    await writing.write(await asyncio.to_thread(contents.read))
        finally:
            contents.close()


def _batches(items: list[Any]) -> Iterator[list[Any]]:
    """Split the items into batches, each small enough for one request."""
    batch: list[Any] = []
    length = 0
    for item in items:
        batch.append(item)
        length += len(dumps(item))
        if length > _FRAME:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch
