"""Reads the first message of a TLS connection, and takes from it the name of the wanted server.

The message comes from a hostile program.  Whatever two readers could understand in two ways is refused: the real server
must not see another name than Cloche has checked.
"""

from __future__ import annotations

from cloche.model.network_rules import normal_name
from cloche.model.plain import Plain

MAX_BYTES = 64 << 10
MAX_FRAGMENTS = 16
_MAX_RECORD = 16 << 10
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ALPN = 0, 16
_ENCRYPTED = (0xFE0D, 0xFFCE)  # Encrypted Client Hello, and its draft
_HOST_NAME = 0


class NotTls(Exception):
    """These bytes do not begin a TLS connection, or do it in a way that no client needs."""


class ClientHello(Plain):
    """What a client says before anything is encrypted."""

    server_name: str | None  # in lower case, without a final dot; None if the client sends none
    alpn: tuple[str, ...] = ()
    has_ech: bool = False  # the name may be that of a front; browsers also send this without a meaning


def read(data: bytes) -> ClientHello | None:
    """The ClientHello that the data begins with; None when more bytes are needed; NotTls when it cannot become one."""
    message = _message(data)
    return None if message is None else _client_hello(_Fields(message))


def _message(data: bytes) -> bytes | None:
    """Put the handshake message together from its records."""
    message, place, fragments = b"", 0, 0
    while True:
        if place >= MAX_BYTES:
            raise NotTls("The ClientHello is too large.")
        header = data[place : place + 5]
        if header[:1] and header[0] != _HANDSHAKE:
            raise NotTls("The connection does not begin with a TLS handshake.")
        if header[1:2] and header[1] != 3:
            raise NotTls("The record has no version of TLS.")
        if len(header) < 5:
            return None
        length = int.from_bytes(header[3:], "big")
        if not 0 < length <= _MAX_RECORD:
            raise NotTls("The length of a record is not allowed.")
        fragments += 1
        if fragments > MAX_FRAGMENTS:
            raise NotTls("The ClientHello is in too many parts.")
        fragment = data[place + 5 : place + 5 + length]
        message += fragment
        wanted = _length(message)
        if len(fragment) < length:
            return None
        if wanted is not None and len(message) >= wanted:
            if len(message) > wanted:
                raise NotTls("Something follows the ClientHello in its record.")
            return message[4:]
        place += 5 + length


def _length(message: bytes) -> int | None:
    """The length of the whole message, as soon as its own header is there."""
    if message[:1] and message[0] != _CLIENT_HELLO:
        raise NotTls("The handshake does not begin with a ClientHello.")
    if len(message) < 4:
        return None
    length = 4 + int.from_bytes(message[1:4], "big")
    if length > MAX_BYTES:
        raise NotTls("The ClientHello is too large.")
    return length


class _Fields:
    """Takes fields from the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def take(self, size: int) -> bytes:
        found = self._data[self._place : self._place + size]
        if len(found) < size:
            raise NotTls("A field of the ClientHello ends too early.")
        self._place += size
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Fields:
        """Fields whose length is written before them, in `size` bytes."""
        return _Fields(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._place)

    def __bool__(self) -> bool:
        return self._place < len(self._data)


def _client_hello(fields: _Fields) -> ClientHello:
    if fields.number(1) != 3:
        raise NotTls("The ClientHello has no version of TLS.")
    fields.take(1 + 32)  # the rest of the version; random
    fields.vector(1)  # session
    if len(fields.vector(2).rest()) % 2 or not fields.vector(1):
        raise NotTls("The ciphers or compressions of the ClientHello are malformed.")
    extensions = _extensions(fields) if fields else {}
    return ClientHello(
        server_name=_server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else None,
        alpn=_protocols(extensions[_ALPN]) if _ALPN in extensions else (),
        has_ech=any(kind in extensions for kind in _ENCRYPTED),
    )


def _extensions(fields: _Fields) -> dict[int, _Fields]:
    listed, found = fields.vector(2), dict[int, _Fields]()
    if fields:
        raise NotTls("Something follows the extensions of the ClientHello.")
    while listed:
        kind = listed.number(2)
        if kind in found:
            raise NotTls(f"The extension {kind} is there twice.")
        found[kind] = listed.vector(2)
    return found


def _server_name(extension: _Fields) -> str:
    names = extension.vector(2)
    if extension or names.number(1) != _HOST_NAME:
        raise NotTls("The server name is malformed, or is not the name of a host.")
    name = names.vector(2).rest()
    if names:
        raise NotTls("The ClientHello names several servers.")
    # An address, a byte outside ASCII, and a NUL cannot be in a name.
    normal = normal_name(name.decode("ascii")) if name.isascii() else None
    if normal is None:
        raise NotTls("The server name cannot be the name of a host.")
    return normal


def _protocols(extension: _Fields) -> tuple[str, ...]:
    listed, found = extension.vector(2), list[str]()
    while listed:
        found.append(listed.vector(1).rest().decode("latin-1"))
    if extension or not all(found):
        raise NotTls("The list of protocols is malformed.")
    return tuple(found)
