"""T8: nothing but the sandbox's own loopback can be reached.  The tests listen themselves; nobody else is called."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

import pytest

import cloche

CONNECT = """
import socket
try:
    s = socket.socket(socket.{family}, socket.SOCK_STREAM)
    s.settimeout(3)
    s.connect({address!r})
    print("connected")
except OSError as problem:
    print(type(problem).__name__)
"""


@pytest.fixture
def listener() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def test_a_service_on_the_hosts_loopback_cannot_be_reached(attack, listener):
    code = CONNECT.format(family="AF_INET", address=listener)
    assert attack(code) == "ConnectionRefusedError"
    assert attack(code, "network") == "connected"


def test_the_same_over_ipv6_cannot_be_reached(attack):
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this host has no IPv6")
    with server:
        code = CONNECT.format(family="AF_INET6", address=server.getsockname()[:2])
        assert attack(code) in ("ConnectionRefusedError", "OSError")
        assert attack(code, "network") == "connected"


def test_an_abstract_unix_socket_of_the_host_cannot_be_reached(attack):
    name = "\0cloche-test-" + secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        code = CONNECT.format(family="AF_UNIX", address=name)
        assert attack(code) == "ConnectionRefusedError"
        assert attack(code, "network") == "PermissionError"  # Landlock's scope alone holds it, too
        assert attack(code, "network", "landlock") == "connected"


def test_there_is_no_way_but_loopback(attack):
    code = """
import socket
print([name for _, name in socket.if_nameindex()])
print(len(open("/proc/net/route").readlines()) - 1)
for address in (("192.0.2.1", 80), ("169.254.169.254", 80)):  # documentation and link-local: nobody is there
    try:
        s = socket.socket(); s.settimeout(2); s.connect(address); print("connected")
    except OSError as problem:
        print(problem.strerror)
"""
    assert attack(code).split("\n") == ["['lo']", "0", "Network is unreachable", "Network is unreachable"]
    with_network = attack("import socket; print([name for _, name in socket.if_nameindex()])", "network")
    assert with_network == str([name for _, name in socket.if_nameindex()])


def test_its_own_loopback_works():
    code = """
import socket, threading
server = socket.create_server(("127.0.0.1", 8080))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hello")).start()
print(socket.create_connection(("localhost", 8080)).recv(9).decode())
"""
    assert cloche.run(code).stdout == "hello\n"
