"""The decision about names and addresses, where a whole sandbox would show no more."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cloche.egress import addresses
from cloche.egress.addresses import Address, is_local, parse
from cloche.egress.decision import NotAllowed, Policy
from cloche.egress.http_heads import MAX_LINE, begins_request
from cloche.model.network import Network


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """An address of this host, which counts as public."""
    monkeypatch.setattr(addresses, "is_public", lambda _: True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("198.51.100.1", 9))  # nothing is sent
            address = trial.getsockname()[0]
        except OSError:
            address = "127.0.0.1"
        yield parse(address)


def test_public_addresses_of_the_host_itself_are_closed(own: Address) -> None:
    policy = Policy(Network(["public"]))
    assert not policy.of_address(own, 22).is_allowed
    with pytest.raises(NotAllowed, match="own host"):
        policy.usable("me.test", 22, [own])
    there = parse("198.51.100.1")
    assert policy.of_address(there, 22).is_allowed
    assert policy.usable("me.test", 22, [own, there]) == [there]
    assert Policy(Network(["public"]), private=[str(own)]).of_address(own, 22).is_allowed


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("192.0.2.77", False)]
)
def test_the_kernel_says_which_addresses_are_here(address: str, expected: bool) -> None:
    assert is_local(parse(address)) is expected


def test_denied_packages_are_denied() -> None:
    indexes = [("index.test", 443)]
    assert Policy(Network(["index.test", "packages"]), indexes=indexes).of_name("index.test", 443).is_allowed
    for allowed in ("index.test", "packages", "public"):
        denied = Policy(Network([allowed], deny=["packages"]), indexes=indexes)
        assert denied.of_name("index.test", 443).rule == "deny packages"


def test_a_refusal_names_the_rule_that_would_allow_it_if_one_can() -> None:
    policy = Policy(Network(["a.test"], deny=["b.test"]))
    assert policy.of_name("c.test", 443).allow == "c.test"
    assert policy.of_name("a.test", 8443).allow == "a.test:8443"
    assert policy.of_name("b.test", 443).allow == ""
    assert policy.of_address(parse("93.184.216.34"), 8443).allow == "93.184.216.34:8443"
    assert policy.of_address(parse("2606:2800:220:1::1"), 8443).allow == "[2606:2800:220:1::1]/128:8443"
    assert policy.of_address(parse("10.1.2.3"), 80).allow == ""


def test_a_mapped_range_is_the_range_itself() -> None:
    assert Network(["[::ffff:203.0.113.0]/120:25"]).allow == ("203.0.113.0/24:25",)
    assert Network(["2001:db8::/32"]).allow == ("2001:db8::/32",)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n", True),
        (b"\r\n\r\n get\t/ http/9\n", True),
        (b"FIND / HTTP/1.1\r", True),
        (b"GET /\n", True),
        (b"", None),
        (b"G", None),
        (b"GET / HTTP/1.1", None),
        (b"GET /" + b"a" * MAX_LINE, True),
        (b"PING\r\n", False),
        (b"SET a b\r\n", False),
        (b"*1\r\n$4\r\nPING\r\n", False),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", False),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (b"0032git-upload-pack /a\0host=b", None),
        (b"=" * 300, False),
        # What servers have been seen to accept: in Python's words, with Node's protocols, of Go's length.
        (b"x" * 300, None),
        (b"x" * 300 + b" / HTTP/1.1\r\n", True),
        (b"GET\xa0/\xa0HTTP/1.1\r\n", True),
        (b"GET\x1f/\x85HTTP/1.1\x1c\r\n", True),
        (b"GET\r/\rHTTP/1.1\n", True),
        (b"GET\r/", None),
        (b"GET /\1\0 HTTP/1.1\r\n", True),
        (b"GET /\1", None),
        (b"GET / RTSP/1.0\r\n", True),
        (b"SOURCE rtsp://host/ ICE/1.0\r\n", True),
        (b"GET http://other.example/\n", True),
        (b"SETUP *HTTP/2.0\n", True),
        (b"KEYS *\r\n", False),
        (b"OPTIONS rtsp://camera/ RTSP/1.0\r\n", False),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", True),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11", True),
    ],
)
def test_a_conversation_in_http_is_recognised(data: bytes, expected: bool | None) -> None:
    assert begins_request(data) is expected
