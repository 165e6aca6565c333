"""Encrypts what the server keeps for its users and must not be readable in its database."""

from __future__ import annotations

from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING

from cloche.policy import key_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12  # bytes
_WHAT = "The key for stored secrets"


class Unreadable(Exception):
    """An encrypted text belongs to another key or another place, or was changed."""


class Encryption:
    """Encrypts texts with a key in a file, which the first use makes.  A copy of the database alone has no values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cipher: AESGCM | None = None

    def encrypt(self, text: str, place: str) -> str:
        """Encrypt a text.  It can be opened for the same place only, so nobody can move it to another row."""
        nonce = token_bytes(_NONCE)
        return b64encode(nonce + self._key().encrypt(nonce, text.encode(), place.encode())).decode()

    def decrypt(self, encrypted: str, place: str) -> str:
        """Decrypt a text; raises Unreadable."""
        from cryptography.exceptions import InvalidTag

        data = b64decode(encrypted)
        try:
            return self._key().decrypt(data[:_NONCE], data[_NONCE:], place.encode()).decode()
        except InvalidTag:
            raise Unreadable from None

    def _key(self) -> AESGCM:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # a server without secrets does not wait

            text = key_file.read(self._path, what=_WHAT)
            if text is None:
                key_file.make(self._path, key_file.new_secret(), what=_WHAT)
                text = key_file.read(self._path, what=_WHAT)
            self._cipher = AESGCM(sha256((text or "").encode()).digest())
        return self._cipher
