"""The certificate authority of a sandbox."""

from __future__ import annotations

import os
import ssl

import pytest

from cloche.egress.authority import Authority


def handshake(server: ssl.SSLContext, trusted: str, name: str) -> ssl.SSLObject:
    """The client's side of a connection that has been agreed on."""
    context = ssl.create_default_context(cadata=trusted)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python does from 3.13 on
    context.set_alpn_protocols(["h2", "http/1.1"])
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = context.wrap_bio(down, up, server_hostname=name)
    far = server.wrap_bio(up, down, server_side=True)
    for _ in range(3):
        for side in (near, far):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return near


@pytest.mark.parametrize("name", ["api.example.org", "198.51.100.7", "2001:db8::1", "a" * 60 + ".b" * 60])
def test_its_certificates_are_valid_for_their_name_alone(name: str) -> None:
    authority = Authority()
    near = handshake(authority.context(name), authority.pem(), name)
    assert near.selected_alpn_protocol() == "http/1.1"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(authority.context(name), authority.pem(), "other.example.org")


def test_another_sandboxs_authority_is_not_trusted() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(Authority().context("api.example.org"), Authority().pem(), "api.example.org")


def test_certificates_are_kept_but_not_without_bound() -> None:
    authority = Authority()
    first = authority.context("0.example.org")
    assert authority.context("0.example.org") is first
    for number in range(1, 70):
        authority.context(f"{number}.example.org")
    assert len(authority._leaves) == 64
    assert authority.context("0.example.org") is not first


def test_no_key_stays_in_a_descriptor_or_a_text() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    authority = Authority()
    authority.context("api.example.org")
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert "PRIVATE" not in authority.pem() + repr(authority)
