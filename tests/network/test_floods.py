"""Hostile programs and servers that try to use up the egress process: it stays small, and others are served."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.network.outside import World
from tests.network.test_other_ways import gain, prepare

import cloche
from cloche.engine import egress_process

BOUND_S = 5.0  # for a page while another sandbox does its worst, and all tests at once keep the processors busy
GROWTH = 24 << 20  # bytes: what one sandbox may occupy, with its log and its names


class Egress:
    """The egress process as the host sees it."""

    def __init__(self) -> None:
        self.pid = egress_process.pid()

    def memory(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, descriptors: int) -> int:
        """Wait until no more descriptors are open than this; return how many are."""
        end = time.monotonic() + 15
        while (now := self.descriptors()) > descriptors and time.monotonic() < end:
            time.sleep(0.05)
        return now


@pytest.fixture(scope="module")
def hostile(world: World) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(network=["world.test", "world.test:8080", "world.test:9999"], timeout=60) as box:
        prepare(box)
        assert gain(box, "web('world.test', 80, get('world.test'))")
        yield box


@pytest.fixture(scope="module")
def other(world: World) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        yield box


DROPPED = """
for number in range(10_000):
    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((ADDRESSES[number % len(ADDRESSES)], (80, 443, 8080)[number % 3]))
    sock.close()
"""
HALF_OPEN = """
held = []
for number in range(900):
    sock = socket.socket()
    sock.settimeout(2)
    try:
        sock.connect((ADDRESSES[number % len(ADDRESSES)], (80, 443, 8080, 9999, 3128, 53)[number % 6]))
        sock.send((b"G", b"\\x16\\3\\1\\2\\0", b"GET / HTTP/1.1\\r\\nA: ", b"x", b"CONNECT w", b"\\0")[number % 6])
    except OSError:
        pass
    held.append(sock)
"""
SLOW = """
end = time.monotonic() + 3
while time.monotonic() < end:
    for sock in held:
        try:
            sock.send(b"a")
        except OSError:
            pass
for sock in held:
    sock.close()
"""
NAMES = """
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect(("198.18.0.1", 53))
sock.settimeout(0.2)
seen = set()
for number in range(20_000):
    sock.send(question(f"secret-{number}.tunnel.test"))
    if number % 16 == 15:
        for _ in range(16):
            try:
                seen.add(sock.recv(512)[-4:])
            except OSError:
                break
print(len(seen))
"""
ENDLESS = """
for number in range(40):
    sock = connected("world.test", 80)
    send(sock, get("world.test", target=("/endless", "/silent", "/break", "/bytes/100000000")[number % 4]))
    if number % 4 == 1:  # a close in order could mean that the program still waits
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        sock.recv(1000)
    sock.close()
"""
URGENT = """
held = []
for number in range(100):
    sock = connected("world.test", 9999)
    sock.send(b"x" * (number % 3))
    sock.send(b"!", socket.MSG_OOB)
    sock.send(b"more")
    held.append(sock)
time.sleep(1)
for sock in held:
    sock.close()
"""
FLOODS = {
    "dropped connections": DROPPED,
    "half-open and slow connections": HALF_OPEN + SLOW,
    "names": NAMES,
    "urgent bytes": URGENT,
    "servers that never end": ENDLESS,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_leaves_nothing_and_harms_nobody(
    flood: str, hostile: cloche.Sandbox, other: cloche.Sandbox, world: World
) -> None:
    egress = Egress()
    found = "ADDRESSES = [socket.gethostbyname('world.test'), socket.gethostbyname('evil.test'), '10.0.0.1', '8.8.8.8']"
    assert hostile.run(found).error is None
    memory, descriptors = egress.memory(), egress.descriptors()
    results: list[cloche.Result] = []
    thread = threading.Thread(target=lambda: results.append(hostile.run(FLOODS[flood])))
    thread.start()
    waits = []
    while thread.is_alive():
        begun = time.monotonic()
        assert gain(other, "web('world.test', 80, get('world.test'))")
        waits.append(time.monotonic() - begun)
    thread.join()
    assert results[0].error is None or results[0].error.kind == "network", results[0].error
    assert max(waits) < BOUND_S
    if flood == "names":
        assert int(results[0].stdout) <= 4096 + 1  # addresses, and the refusal of more
    assert len(hostile.network.log()) <= 10_000
    assert egress.settle(descriptors + 4) <= descriptors + 4  # spare pipes
    assert egress.memory() - memory < GROWTH
    assert gain(hostile, "web('world.test', 80, get('world.test'))"), "it has its own way again"


def test_without_descriptors_it_rests_and_comes_back(hostile: cloche.Sandbox, other: cloche.Sandbox) -> None:
    """Not even a limit that it did not expect makes it busy, or ends it."""
    egress = Egress()
    usual = resource.prlimit(egress.pid, resource.RLIMIT_NOFILE)
    assert usual[0] == usual[1], "it takes what it may have"
    resource.prlimit(egress.pid, resource.RLIMIT_NOFILE, (egress.descriptors() + 2, usual[1]))
    try:
        assert (
            hostile.run(
                "held = [socket.socket() for _ in range(50)]\n"
                "for sock in held: sock.setblocking(False); sock.connect_ex((ADDRESSES[0], 9999))\n"
            ).error
            is None
        )
        before = egress.processor_s()
        time.sleep(1)  # in which it has nothing to do
        assert egress.processor_s() - before < 0.5
    finally:
        resource.prlimit(egress.pid, resource.RLIMIT_NOFILE, usual)
    assert hostile.run("for sock in held: sock.close()").error is None
    assert gain(other, "web('world.test', 80, get('world.test'))")


def test_a_run_ends_in_time_although_its_server_is_silent(world: World) -> None:
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        begun = time.monotonic()
        result = box.run("talk('world.test', 80, get('world.test', target='/silent'))\ntime.sleep(99)", timeout=1)
        assert result.error is not None
        assert result.error.kind == "timeout"
        assert time.monotonic() - begun < 5


LONG = r"""
name = '.'.join(['n' * 60] * 4)[:242] + '.world.test'
for _ in range(150):
    talk(*PROXY, get(b'\xff'.decode('latin-1') * 253, target=f'http://{name}/').decode().encode('latin-1'))
kept.send(b'still there\n')
print(kept.recv(99))
"""


def test_no_length_of_names_hides_what_was_tried(world: World) -> None:
    """A page of the log that the kernel would not carry ended the channel, and with it the log and the quota."""
    with cloche.Sandbox(network=["*.world.test", "world.test:2525"], timeout=60) as box:
        prepare(box)
        assert box.run("kept = connected('world.test', 2525); kept.recv(99)").error is None
        result = box.run(LONG)
        assert result.stdout == "b'still there\\n'\n", result.stderr
        assert len(result.network) == 150
        assert {each.verdict for each in result.network} == {"refused"}
        assert [each.number for each in box.network.log()] == list(range(1, 152))
        assert gain(box, "send(kept, b'and now\\n') or kept.recv(99).decode()") == "and now\n"


UNREAD = """
held = []
for number in range(200):
    held.append(connected("world.test", 80))
    send(held[-1], get("world.test", target="/endless"))
"""


def test_programs_that_read_nothing_occupy_little(world: World) -> None:
    """Neither in the process, nor in the kernel, whose memory for TCP all sandboxes share with the host."""
    with cloche.Sandbox(network=["world.test"], timeout=60) as box:
        prepare(box)
        assert gain(box, "web('world.test', 80, get('world.test'))")
        egress = Egress()
        before = egress.memory()
        assert box.run(UNREAD).error is None
        moved = 0
        while moved < (moved := sum(each.bytes_down for each in box.network.log())):
            time.sleep(0.3)  # until nothing moves any more
        assert moved > 200 << 16
        assert moved < 200 << 20
        assert egress.memory() - before < 80 << 20


HOSTILE_NAMES = (
    b"<script>alert(1)</script>.test",
    b"a\r\nSet-Cookie: x.test",
    b"\x1b[31m.test",
    b"a\0b.test",
    b"\xff\xfe.test",
    b"x" * 300,
    b"' OR 1=1.test",
    b"a b.test",
)


def test_hostile_names_are_harmless_in_logs(hostile: cloche.Sandbox) -> None:
    before = max(each.number for each in hostile.network.log())
    for name in HOSTILE_NAMES:
        for port, first in ((80, b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n"), (8080, b"FIND %s HTTP/1.1\r\n\r\n")):
            hostile.run(f"answer = talk('world.test', {port}, {first % name!r})")
        asked = b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % name
        answer = hostile.run(f"print(talk(*PROXY, {asked!r}))")
        assert "Set-Cookie: x" not in answer.stdout
        assert gain(hostile, f"hand('world.test', 443, named(server_names({name!r})))") == ""
    logged = hostile.network.log(before)
    assert len(logged) >= 2 * len(HOSTILE_NAMES)
    for each in logged:
        shown = each.host + each.rule + each.reason
        assert shown.isprintable()
        assert len(shown) < 1500
