"""Shares: code and its output, frozen as a document that others read through a link until it is revoked.

Each share is a file: one line about it, then the document.  The token in the link is the only way to it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps, loads
from pathlib import Path
from secrets import token_hex, token_urlsafe
from time import time

from cloche.clock import earlier
from cloche.configuration import Configuration
from cloche.errors import Gone, InvalidRun
from cloche.policy.caller import Caller
from cloche.policy.refusals import Forbidden
from cloche.service.audit import Audit
from cloche.service.identity import new_id
from cloche.service.reservations import Reservations
from cloche.service.verbs import verb
from cloche.service.workspaces.disk import problem_of

log = logging.getLogger("cloche.shares")

MAX_BYTES = 8 << 20  # of one document
MOST = 200  # of one owner
_ENDING = ".json"


@dataclass(frozen=True, slots=True)
class Share:
    """What is known of a share without reading its document."""

    id: str
    token: str
    owner: str
    title: str
    created: float
    bytes: int


class Shares:
    """All shares of this server, as the folder has them."""

    def __init__(self, folder: Path, configuration: Configuration, audit: Audit) -> None:
        self._folder, self._configuration, self._audit = folder, configuration, audit
        self._by_token: dict[str, Share] = {}
        self._places = Reservations(MOST, f"You share {MOST} documents already.", "Revoke some of them.")

    async def load(self) -> None:
        for share in await asyncio.to_thread(self._look):
            self._by_token[share.token] = share

    @verb("run")
    async def create(self, caller: Caller, title: str, document: bytes) -> Share:
        """Freeze a document and make a link to it.  It cannot be changed, only revoked."""
        if self._configuration.sharing == "off":
            raise Forbidden("Sharing is switched off on this server.", "The operator can allow it: `sharing`.")
        if len(document) > MAX_BYTES:
            raise InvalidRun(
                f"A shared document is limited to {MAX_BYTES >> 20} MB, and this one has {len(document) >> 20} MB.",
                hint="Clear runs with large output, or share fewer files.",
            )
        now = time()
        share = Share(new_id("shr", now), token_urlsafe(24), caller.owner, title, now, len(document))
        with self._places.one(caller.owner, len(self.list(caller))):
            try:
                await asyncio.to_thread(self._write, share, document)
            except OSError as problem:
                raise problem_of(problem) from problem
            self._by_token[share.token] = share
        self._audit.note(caller, "share.create", share.id, {"title": share.title, "bytes": share.bytes})
        return share

    def by_token(self, token: str) -> Share:
        """The share that a link leads to.  The token is the permission, so this takes no caller."""
        found = self._by_token.get(token)
        if found is None:
            raise Gone("Nothing is shared at this address.", hint="It may have been revoked.")
        return found

    async def document(self, share: Share) -> bytes:
        try:
            contents = await asyncio.to_thread(self._path(share).read_bytes)
        except OSError as problem:
            log.error("the shared document %s cannot be read: %s", share.id, problem.strerror)
            raise Gone("The document cannot be read.", hint="The server's log has the reason.") from problem
        return contents.partition(b"\n")[2]

    @verb("read")
    def list(self, caller: Caller) -> Sequence[Share]:
        """The caller's shares, newest first."""
        found = [share for share in self._by_token.values() if share.owner == caller.owner]
        return sorted(found, key=lambda share: share.id, reverse=True)

    @verb("run")
    async def revoke(self, caller: Caller, identity: str) -> None:
        """End a share at once: its link leads nowhere."""
        for share in self.list(caller):
            if share.id == identity:
                await self._remove(share)
                self._audit.note(caller, "share.revoke", identity)
                return
        raise Gone("There is no such share.", hint="GET /v1/shares lists your shares.")

    async def remove_old(self, age_s: float) -> None:
        before = earlier() - age_s
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

    def _look(self) -> Sequence[Share]:
        found = []
        for path in self._folder.glob("*"):
            if path.suffix != _ENDING:
                path.unlink(missing_ok=True)  # left over from a crash
                continue
            try:
                with path.open("rb") as file:
                    found.append(Share(**loads(file.readline())))
            except (OSError, ValueError, TypeError) as problem:
                log.error("the shared document in %s cannot be read: %s", path, problem)
        return found
