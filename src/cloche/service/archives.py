"""Archives of files that callers have uploaded for later builds, by owner and hash.  Old ones are removed."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from pathlib import Path
from secrets import token_hex
from time import time

from cloche.errors import InvalidRun, SandboxFailed
from cloche.policy.caller import Caller
from cloche.service.verbs import verb

MAX_BYTES = 128 << 20  # of one archive
MOST_BYTES = 512 << 20  # of one owner; the oldest archives make room
AGE_S = 86_400.0
_DRAFT = ".part"


class Archives:
    """All archives of this server.  The name of an archive is a hash that its owner chose, in hexadecimal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @verb("run")
    async def has(self, caller: Caller, name: str) -> bool:
        """Whether the caller has uploaded an archive already; this keeps it for longer."""
        return await asyncio.to_thread(self._touch, self._path(caller, name))

    @verb("run")
    async def keep(self, caller: Caller, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Keep an archive, in place of an earlier one of that name."""
        path = self._path(caller, name)
        draft = path.with_name(f"{path.name}.{token_hex(8)}{_DRAFT}")
        try:
            await asyncio.to_thread(path.parent.mkdir, 0o700, True, True)
            with open(draft, "xb") as file:
                async for piece in pieces:
                    if file.tell() + len(piece) > MAX_BYTES:
                        raise InvalidRun(
                            f"The files of one copy step take at most {MAX_BYTES >> 20} MB, compressed.",
                            hint="Copy less, or fetch large files with a command.",
                        )
                    await asyncio.to_thread(file.write, piece)
            os.replace(draft, path)
            await asyncio.to_thread(_make_room, path)
        except OSError as problem:
            raise SandboxFailed(
                f"The uploaded files could not be kept: {problem.strerror}.", hint="Try again, or ask the operator."
            ) from problem
        finally:
            with suppress(OSError):  # if there was no draft, its absence is fine; if the disk fails, that is known
                draft.unlink()

    @verb("run")
    async def read(self, caller: Caller, name: str) -> memoryview | None:
        """Return an archive as a view of its file, which takes no memory; None if there is none (any more)."""
        return await asyncio.to_thread(_view, self._path(caller, name))

    async def remove_old(self) -> None:
        """Remove archives that no build has asked for lately, and drafts that a killed server has left."""
        await asyncio.to_thread(_remove_older, self._folder, time() - AGE_S)

    def _path(self, caller: Caller, name: str) -> Path:
        if not name.isascii() or not name.isalnum():
            raise InvalidRun("The name of an archive is a hash in hexadecimal.")
        return self._folder / sha256(caller.owner.encode()).hexdigest()[:24] / name

    def _touch(self, path: Path) -> bool:
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        return True


def _view(path: Path) -> memoryview | None:
    """A view stays valid when the file is removed or replaced; nobody changes it."""
    try:
        with open(path, "rb") as file:
            os.utime(file.fileno())
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    except FileNotFoundError:
        return None


def _make_room(newest: Path) -> None:
    """Remove the oldest archives of an owner until the others fit."""
    found = [(entry.stat(), Path(entry.path)) for entry in os.scandir(newest.parent) if not entry.name.endswith(_DRAFT)]
    total = sum(status.st_size for status, _ in found)
    for status, path in sorted(found, key=lambda each: each[0].st_mtime):
        if total > MOST_BYTES and path != newest:
            path.unlink(missing_ok=True)
            total -= status.st_size


def _remove_older(folder: Path, moment: float) -> None:
    for owner in folder.iterdir() if folder.is_dir() else ():
        for path in owner.iterdir():
            if path.stat().st_mtime < moment:
                path.unlink(missing_ok=True)
        if not any(owner.iterdir()):
            shutil.rmtree(owner, ignore_errors=True)
