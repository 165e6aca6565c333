"""T12: what one tenant leaves in a network namespace that is used again (decision 0017) never reaches the next.

Each attack leaves something behind.  The next sandboxes, which may get the same namespace, then compare all that
/proc/net and /proc/sys/net show with what an unused namespace shows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.alone

SHOW = """
import json, os
seen = {}
for top in ("/proc/self/net", "/proc/sys/net"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: seen[f"{folder}/{name}"] = open(f"{folder}/{name}", errors="replace").read(1 << 16)
            except OSError as problem: seen[f"{folder}/{name}"] = str(problem.errno)
print(json.dumps([os.readlink("/proc/self/ns/net"), seen]))
"""

START = """
import os, socket, struct, fcntl
def attempt(act):
    try: return act()
    except OSError: pass
kept = []
"""
ATTACKS = {
    "listeners that nobody closes": """
for family, address in ((2, "127.0.0.1"), (10, "::1")):
    server = socket.socket(family); server.bind((address, 5555)); server.listen(); kept.append(server)
if os.fork() == 0: os.setsid(); __import__("time").sleep(60)
""",
    "datagram sockets": """
for family, address in ((2, "127.0.0.1"), (10, "::1")):
    end = socket.socket(family, socket.SOCK_DGRAM); end.bind((address, 5556)); kept.append(end)
""",
    "unread datagrams": """
end = socket.socket(2, socket.SOCK_DGRAM); end.bind(("127.0.0.1", 5556))
socket.socket(2, socket.SOCK_DGRAM).sendto(b"secret", ("127.0.0.1", 5556))
""",
    "connections in TIME_WAIT": """
server = socket.create_server(("127.0.0.1", 5557))
client = socket.create_connection(("127.0.0.1", 5557)); other, _ = server.accept()
client.close(); other.close(); server.close()
""",
    "a connection that is half open": """
server = socket.create_server(("127.0.0.1", 5557)); client = socket.create_connection(("127.0.0.1", 5557))
client.send(b"secret"); os._exit(0)
""",
    "abstract Unix sockets": """
for kind in (1, 2, 5): end = socket.socket(1, kind); end.bind(f"\\0left-{kind}"); kept.append(end)
""",
    "multicast groups": """
end = socket.socket(2, socket.SOCK_DGRAM)
attempt(lambda: end.setsockopt(0, 35, socket.inet_aton("224.1.2.3") + socket.inet_aton("127.0.0.1")))
six = socket.socket(10, socket.SOCK_DGRAM)
attempt(lambda: six.setsockopt(41, 20, socket.inet_pton(10, "ff02::1234") + struct.pack("i", 1)))
""",
    "settings": """
for folder, _, names in os.walk("/proc/sys/net"):
    for name in names: attempt(lambda: open(f"{folder}/{name}", "r+").write("1"))
for name in ("hostname", "domainname"): attempt(lambda: open(f"/proc/sys/kernel/{name}", "w").write("left"))
""",
    "addresses, routes and links": """
netlink = socket.socket(16, 3, 0)
for kind in (16, 18, 20, 24, 28, 32, 80, 88):  # RTM_NEWLINK, _SETLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWRULE …
    attempt(lambda: netlink.send(struct.pack("IHHII", 48, kind, 0x605, 1, 0) + bytes(32)))
plain = socket.socket(2, socket.SOCK_DGRAM)
attempt(lambda: fcntl.ioctl(plain, 0x8914, struct.pack("16sh14x", b"lo", 0)))  # SIOCSIFFLAGS: down
attempt(lambda: fcntl.ioctl(plain, 0x8922, struct.pack("16si12x", b"lo", 1280)))  # SIOCSIFMTU
attempt(lambda: fcntl.ioctl(plain, 0x8955, bytes(68)))  # SIOCSARP
""",
    "firewall rules": """
for family, level, name in ((2, 0, 64), (10, 41, 64)):  # IPT_SO_SET_REPLACE, IP6T_SO_SET_REPLACE
    attempt(lambda: socket.socket(family, socket.SOCK_DGRAM).setsockopt(level, name, bytes(96)))
""",
    "pings": """
attempt(lambda: socket.socket(2, socket.SOCK_DGRAM, 1).sendto(b"\\x08" + bytes(7), ("127.0.0.1", 0)))
""",
    "flow labels": """
request = socket.inet_pton(10, "::1") + struct.pack("!I", 0x12345) + struct.pack("BBHHHI", 0, 255, 1, 60, 60, 0)
attempt(lambda: socket.socket(10, socket.SOCK_DGRAM).setsockopt(41, 32, request))
""",
}


def shown(attack: Any, without: str) -> tuple[str, dict[str, list[str]]]:
    place, seen = json.loads(attack(SHOW, without))
    return place, {path: text.splitlines() for path, text in seen.items()}


@pytest.fixture(scope="module")
def fresh(attack: Any) -> dict[str, set[str]]:
    """The lines of each file in namespaces that nobody has used: some differ from one moment to the next."""
    lines: dict[str, set[str]] = {}
    for without in ("unused network", *["nothing"] * 6):
        for path, text in shown(attack, without)[1].items():
            lines.setdefault(path, set()).update(text)
    return lines


# Counted for all namespaces together, or addresses of the kernel, or numbers of sockets that differ each time.
_OF_ALL = ("/sockstat", "/softnet_stat", "/ptype", "/protocols", "/fib_triestat", "/netlink", "/unix")


def differences(seen: dict[str, list[str]], fresh: dict[str, set[str]]) -> dict[str, list[str]]:
    found = {path: [line for line in text if line not in fresh.get(path, ())] for path, text in seen.items()}
    found = {path: lines for path, lines in found.items() if "@left" in str(lines) or not path.endswith(_OF_ALL)}
    return {path: lines for path, lines in found.items() if lines and "/net/stat/" not in path}


@pytest.mark.parametrize("what", ATTACKS)
def test_nothing_that_was_left_is_seen_by_the_next(what: str, attack: Any, fresh: dict[str, set[str]]) -> None:
    for _ in range(2):
        attack(START + ATTACKS[what], "nothing")
        for _ in range(2):
            assert differences(shown(attack, "nothing")[1], fresh) == {}


def test_without_the_look_it_would_be_seen(attack: Any, fresh: dict[str, set[str]]) -> None:
    found: set[str] = set()
    for _ in range(4):
        attack(START + ATTACKS["unread datagrams"], "unused network")
        for _ in range(3):  # one does not know which of them gets the namespace
            found |= differences(shown(attack, "unused network")[1], fresh).keys()
    assert any(path.endswith(("/snmp", "/dev", "/netstat")) for path in found), found


def test_namespaces_are_used_again_so_that_this_means_something(attack: Any) -> None:
    places = [shown(attack, "nothing")[0] for _ in range(8)]
    assert len(set(places)) < len(places)
