"""The first message of a TLS connection: what real clients send, and what hostile ones try."""

from __future__ import annotations

import ssl
import struct

import pytest

from cloche.egress.client_hello import MAX_FRAGMENTS, ClientHello, NotTls, read


def hello_of(name: str | None, alpn: tuple[str, ...] = ()) -> bytes:
    """What Python's own client says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def extension(kind: int, body: bytes) -> bytes:
    return struct.pack("!HH", kind, len(body)) + body


def names(*entries: tuple[int, bytes]) -> bytes:
    listed = b"".join(struct.pack("!BH", kind, len(name)) + name for kind, name in entries)
    return extension(0, struct.pack("!H", len(listed)) + listed)


def message(extensions: bytes | None) -> bytes:
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    if extensions is not None:
        body += struct.pack("!H", len(extensions)) + extensions
    return b"\1" + len(body).to_bytes(3, "big") + body


def records(data: bytes, size: int = 16384) -> bytes:
    parts = [data[place : place + size] for place in range(0, len(data), size)]
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(part)) + part for part in parts)


def test_a_real_clients_hello_is_read() -> None:
    assert read(hello_of("API.example.org", ("h2", "http/1.1"))) == ClientHello("api.example.org", ("h2", "http/1.1"))
    assert read(hello_of(None)) == ClientHello(None)


def test_more_bytes_are_asked_for_until_the_last_one() -> None:
    data = hello_of("api.example.org")
    assert [size for size in range(len(data)) if read(data[:size]) is not None] == []
    assert read(data + b"\x17\3\3\0\1x") is not None  # early data may follow in another record


def test_a_hello_in_many_records_is_put_together() -> None:
    whole = message(names((0, b"api.example.org")))
    split = records(whole, len(whole) // 10)
    assert read(split) == ClientHello("api.example.org")
    assert [size for size in range(len(split)) if read(split[:size]) is not None] == []


def test_encrypted_hellos_and_final_dots_are_seen() -> None:
    found = read(records(message(names((0, b"Front.Example.")) + extension(0xFE0D, b"x"))))
    assert found == ClientHello("front.example", has_ech=True)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x80\x2e\1\3\1",  # SSL 2
        b"\x16\2",  # no TLS
        b"\x16\3\1\0\0",  # an empty record
        b"\x16\3\1\xff\xff",
        b"\x16\3\1\0\4\2",  # a ServerHello
        b"\x16\3\1\0\4\1\1\0\0",  # as it says, 64 KiB
        records(message(names((0, b"a.example"), (0, b"b.example")))),
        records(message(names((0, b"a.example")) * 2)),
        records(message(names((0, b"a.example")) + extension(16, b"") * 2)),
        records(message(names((1, b"a.example")))),
        records(message(names((1, b"x"), (0, b"a.example")))),
        records(message(names((0, b"")))),
        records(message(names())),
        records(message(extension(0, b""))),
        records(message(names((0, b"a.example\0.other.example")))),
        records(message(names((0, "bücher.example".encode())))),
        records(message(names((0, b"198.51.100.7")))),
        records(message(names((0, b"0x7f.1")))),
        records(message(names((0, b"::1")))),
        records(message(names((0, b"[::1]")))),
        records(message(names((0, b"a..example")))),
        records(message(names((0, b"a.example..")))),
        records(message(names((0, b"a" * 300)))),
        records(message(names((0, b"a.example"))) + b"\0"),
        records(message(names((0, b"a.example")))[:-1] + b"\0\0"),
        records(message(extension(16, b"\0\1\0"))),
        records(message(b"\0\0\xff\xff")),
        records(message(names((0, b"api.example.org"))), 1),  # too many fragments
        b"\x16\3\1\0\1\1" * MAX_FRAGMENTS + b"\x16\3\1\0\1",
    ],
)
def test_a_hello_that_two_readers_could_read_differently_is_refused(data: bytes) -> None:
    with pytest.raises(NotTls):
        read(data)


def test_a_hello_without_extensions_has_no_name() -> None:
    assert read(records(message(None))) == ClientHello(None)
