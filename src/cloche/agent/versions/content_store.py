"""The contents of files, each kept once under an id that is made from it."""

from __future__ import annotations

import os
from _blake2 import blake2b

from cloche.agent.versions.sparse_data import CHUNK, pieces, write_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.versions.store import VersionStore


class ContentStore:
    """The contents that the store has, and those that one version adds to them.

    Hashed is what was read, and written is what was hashed: whatever happens to a file meanwhile, the id is right.
    """

    def __init__(self, store: VersionStore) -> None:
        self.added: dict[str, int] = {}  # ids and bytes, the latest last
        self._store, self._have = store, store.contents()

    def __contains__(self, content: str) -> bool:
        return content in self._have

    def keep(self, fd: int, size: int) -> tuple[str, int]:
        """Have what is in a file in the store; returns its id, and how large it turned out to be."""
        return (self._keep_small if size <= CHUNK else self._keep_large)(fd, size)

    def take_back(self, left: int = 0) -> None:
        """Remove what was added, but for the first so many."""
        self._store.discard("new")
        while len(self.added) > left:
            content, _ = self.added.popitem()
            self._have.discard(content)
            self._store.discard(f"objects/{content}")

    def _keep_small(self, fd: int, size: int) -> tuple[str, int]:
        data = os.pread(fd, size, 0)
        content = blake2b(data, digest_size=32).hexdigest()
        if content not in self._have:
            target = self._store.begin()
            try:
                write_at(target, memoryview(data), 0)
            finally:
                os.close(target)
            self._add(content, len(data))
        return content, len(data)

    def _keep_large(self, fd: int, size: int) -> tuple[str, int]:
        hasher, holes = _fast_hasher(), blake2b()
        position = stored = 0
        problem = None
        target = self._store.begin()
        try:
            for offset, data in pieces(fd, size):
                hasher.update(data)
                if offset != position:
                    holes.update(b"%d-%d " % (position, offset))
                position = offset + len(data)
                stored += len(data)
                if problem is None:
                    try:
                        write_at(target, data, offset)
                    except OSError as no_room:  # go on: we may have this content
                        problem = no_room
                        os.ftruncate(target, 0)
            if position != size:
                holes.update(b"%d-%d " % (position, size))
            # `person`: a small file can have these digests for its content.
            content = blake2b(hasher.digest() + holes.digest(), digest_size=32, person=b"large").hexdigest()
            if content not in self._have:
                if problem is not None:
                    raise problem
                os.ftruncate(target, size)
                self._add(content, stored)
        finally:
            os.close(target)
        return content, size

    def _add(self, content: str, size: int) -> None:
        self._store.finish(f"objects/{content}")
        self._have.add(content)
        self.added[content] = size


def _fast_hasher() -> Any:
    # OpenSSL's, where the processor helps; not for small files, for which loading OpenSSL would take longer.
    try:
        from _hashlib import openssl_sha256
    except ImportError:
        return blake2b()
    return openssl_sha256()
