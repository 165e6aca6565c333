"""Stores the contents of files, each once, under an id made from its hash."""

from __future__ import annotations

import os
from _blake2 import blake2b

from cloche.agent.versions.sparse_data import CHUNK, pieces, write_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.versions.store import VersionStore


class ContentStore:
    """The contents in the store, and those that a new version adds.

    The bytes that are hashed are the bytes that were read, and the same bytes are written.  So the id is right, even if
    a program changes the file meanwhile.
    """

    def __init__(self, store: VersionStore) -> None:
        self.added: dict[str, int] = {}  # id and size in bytes, in the order of adding
        self._store, self._have = store, store.contents()

    def __contains__(self, content: str) -> bool:
        return content in self._have

    def keep(self, fd: int, size: int) -> tuple[str, int]:
        """Store a file's content; returns its id and its actual size."""
        return (self._keep_small if size <= CHUNK else self._keep_large)(fd, size)

    def take_back(self, left: int = 0) -> None:
        """Remove the added contents, except for the first `left` ones."""
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
                    except OSError as no_room:  # continue: the store may already have this content
                        problem = no_room
                        os.ftruncate(target, 0)
            if position != size:
                holes.update(b"%d-%d " % (position, size))
            # `person` keeps the id apart from that of a small file whose content is these digests.
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
    # OpenSSL's hash uses the processor's instructions.  For small files, loading OpenSSL would take longer than
    # hashing.
    try:
        from _hashlib import openssl_sha256
    except ImportError:
        return blake2b()
    return openssl_sha256()
