"""Shares: code and what it showed, frozen as a document that others may read by a link, until it is revoked.

Each is a file: a line about it, then the document as it was given.  The token in the link is the only way to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from secrets import token_hex, token_urlsafe
from time import time

from cloche.errors import Gone, InvalidRun, Refused
from cloche.service.identity import new_id
from cloche.service.manifest import problem_of

log = logging.getLogger("cloche.shares")

MAX_BYTES = 8 << 20  # of one document
MOST = 200  # of one owner
_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class Share:
    """What is known of one without reading its document."""

    id: str
    token: str
    owner: str
    title: str
    created: float
    bytes: int


class Shares:
    """All shares of this server; what is in the folder is what there is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_token: dict[str, Share] = {}

    async def load(self) -> None:
        """Find those that there are."""
        for share in await asyncio.to_thread(self._look):
            self._by_token[share.token] = share

    async def add(self, owner: str, title: str, document: bytes) -> Share:
        """Freeze a document; nobody can change it any more, only revoke it."""
        if len(document) > MAX_BYTES:
            raise InvalidRun(
                f"What is shared may have at most {MAX_BYTES >> 20} MB, and this has {len(document) >> 20} MB.",
                hint="Clear runs with large output, or share fewer files.",
            )
        if len(self.of(owner)) >= MOST:
            raise Refused(f"There are {MOST} shared documents already.", hint="Revoke some.")
        now = time()
        share = Share(new_id("shr", now), token_urlsafe(24), owner, title, now, len(document))
        try:
            await asyncio.to_thread(self._write, share, document)
        except OSError as problem:
            raise problem_of(problem) from problem
        self._by_token[share.token] = share
        return share

    def by_token(self, token: str) -> Share:
        """What a link leads to."""
        found = self._by_token.get(token)
        if found is None:
            raise Gone("There is nothing to see at this address.", hint="It may have been revoked.")
        return found

    async def document(self, share: Share) -> bytes:
        """The document as it was given."""
        try:
            contents = await asyncio.to_thread(self._path(share).read_bytes)
        except OSError as problem:
            log.error("the shared document %s cannot be read: %s", share.id, problem.strerror)
            raise Gone("The document cannot be read.", hint="The server's log says more.") from problem
        return contents.partition(b"\n")[2]

    def of(self, owner: str) -> list[Share]:
        """All of an owner's, newest first."""
        found = [share for share in self._by_token.values() if share.owner == owner]
        return sorted(found, key=lambda share: share.id, reverse=True)

    async def revoke(self, owner: str, identity: str) -> None:
        """Have its link lead nowhere, at once."""
        for share in self.of(owner):
            if share.id == identity:
                await self._remove(share)
                return
        raise Gone("There is no such share.", hint="GET /v1/shares lists those that there are.")

    async def remove_old(self, age_s: float) -> None:
        """Remove those that were made so long ago."""
        before = time() - age_s
        for share in [one for one in self._by_token.values() if one.created < before]:
            await self._remove(share)

    async def _remove(self, share: Share) -> None:
        self._by_token.pop(share.token, None)
        await asyncio.to_thread(self._path(share).unlink, True)

    def _path(self, share: Share) -> Path:
        return self._folder / f"{share.id}{_ENDING}"

    def _write(self, share: Share, document: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._folder / f"fresh-{token_hex(8)}"
        try:
            with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(dumps(asdict(share)).encode() + b"\n" + document)
                file.flush()
                os.fsync(file.fileno())
            os.rename(fresh, self._path(share))
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise

    def _look(self) -> list[Share]:
        found = []
        for path in self._folder.glob("*"):
            if path.suffix != _ENDING:
                path.unlink(missing_ok=True)  # a crash has left it
                continue
            try:
                with path.open("rb") as file:
                    found.append(Share(**loads(file.readline())))
            except (OSError, ValueError, TypeError) as problem:
                log.error("the shared document in %s cannot be read: %s", path, problem)
        return found
