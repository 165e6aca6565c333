"""The bounds of a policy: bytes per second, bytes in all, and connections at once."""

from __future__ import annotations

import pytest
from tests.network.inside import prepare, told
from tests.network.outside import World
from tests.network.world import GREETING, GREETING_TEXT
from tests.waiting import eventually

import cloche

LINE = b"x" * 999 + b"\n"


@pytest.mark.parametrize("port", [80, 8080], ids=["as HTTP", "as it is"])
def test_the_rate_is_kept(world: World, port: int):
    # A server that speaks first is spliced, and what is on port 80 is read.
    rate, seconds = 1 << 20, 1.5
    policy = cloche.Network(allow=["world.test", f"world.test:{port}"], rate=rate)
    with cloche.Sandbox(network=policy) as box:
        prepare(box)
        request = f"GET /bytes/{int(rate * seconds * 2)} HTTP/1.1\r\nHost: world.test:{port}\r\n\r\n".encode()
        measure = (
            f"with socket.create_connection(('world.test', {port})) as found:\n"
            f"    found.sendall({request!r})\n"
            "    first, count = None, 0\n"
            f"    while first is None or time.monotonic() - first < {seconds}:\n"
            "        piece = len(found.recv(1 << 16))\n"
            "        assert piece\n"
            "        if first is None: first = time.monotonic()\n"
            "        else: count += piece\n"
        )
        # A busy host may keep everybody from working for a moment, so one of three has to be right; none is too fast.
        measured = []
        for _ in range(3):
            measured.append(told(box, "count / (time.monotonic() - first)", measure) / rate)
            assert measured[-1] < 1.1
            assert "slowed" in box.network.log()[-1].reason
            if measured[-1] > 0.9:
                return
        raise AssertionError(measured)


def test_the_quota_is_exact_to_the_byte(world: World):
    quota = 100_000
    policy = cloche.Network(allow=[f"world.test:{GREETING}", "world.test"], bytes=quota)
    with cloche.Sandbox(network=policy) as box:
        prepare(box)
        repeat = (
            f"found, sent, heard = hold('world.test', {GREETING}), 0, {len(GREETING_TEXT)}\n"
            f"try:\n  while True:\n    found.sendall({LINE!r})\n    sent += {len(LINE)}\n"
            f"    while heard - {len(GREETING_TEXT)} < sent:\n      piece = len(found.recv(4096))\n"
            "      if not piece: raise OSError\n      heard += piece\nexcept OSError: pass"
        )
        heard = told(box, "heard", repeat)
        (attempt,) = box.network.log()
        assert attempt.bytes_up + attempt.bytes_down == quota
        assert attempt.bytes_down == heard
        assert str(quota) in attempt.reason
        assert attempt.verdict == "allowed"
        # Nothing is left for others.
        assert told(box, "reach('world.test')") == 403
        refused = box.network.log()[-1]
        assert (refused.verdict, refused.bytes_up, refused.bytes_down) == ("refused", 0, 0)
        assert "quota" in refused.reason
        box.network.replace(cloche.Network(allow=["world.test"], bytes=2 * quota))
        assert told(box, "reach('world.test')") == 200
        # The same where the connection is read: the end of an answer that is too long for the quota.
        left = quota - sum(each.bytes_up + each.bytes_down for each in box.network.log()[1:])
        ended = box.run(
            f"import urllib.request, http.client\nurllib.request.urlopen('http://world.test/bytes/{quota}').read()",
        )
        assert ended.error is not None
        (last,) = ended.network
        assert last.bytes_up + last.bytes_down == left
        assert "quota" in last.reason


def test_connections_are_limited_while_they_are_open(world: World):
    policy = cloche.Network(allow=[f"world.test:{GREETING}"], connections=2)
    with cloche.Sandbox(network=policy) as box:
        prepare(box)
        two = f"held = [hold('world.test', {GREETING}) for _ in range(2)]"
        assert told(box, "len(held)", two) == 2
        assert told(box, f"reach('world.test', {GREETING})") in (403, "ConnectionResetError")
        refused = box.network.log()[-1]
        assert refused.verdict == "refused"
        assert "2 connections" in refused.reason
        assert told(box, "[repeated(each) for each in held]") == [True, True]
        # The egress process notes the end of a connection at about the time at which the program does.
        end = "last = held.pop(); last.shutdown(socket.SHUT_WR)\nwhile last.recv(99): pass\nlast.close()"
        assert told(box, "len(held)", end) == 1
        eventually(lambda: box.run(f"held.append(hold('world.test', {GREETING}))").error is None)
        assert told(box, "[repeated(each) for each in held]") == [True, True]


def test_as_many_connections_as_a_policy_says_are_possible(world: World):
    policy = cloche.Network(allow=[f"world.test:{GREETING}"], connections=1100)
    with cloche.Sandbox(network=policy, timeout=60) as box:
        prepare(box)
        assert told(box, "len(held)", f"held = [hold('world.test', {GREETING}) for _ in range(1100)]") == 1100
        assert told(box, f"reach('world.test', {GREETING})") in (403, "ConnectionResetError")
        assert "1100 connections" in box.network.log()[-1].reason


def test_two_hundred_connections_at_once_work(world: World):
    policy = cloche.Network(allow=[f"world.test:{GREETING}"], connections=256)
    code = f"""
import asyncio
async def one(number, everybody):
    reader, writer = await asyncio.open_connection("world.test", {GREETING})
    assert await reader.readline() == {GREETING_TEXT!r}
    await everybody.wait()  # all are open now
    writer.write(f"{{number}}\\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line)
async def main():
    everybody = asyncio.Barrier(200)
    print(sum(await asyncio.gather(*(one(number, everybody) for number in range(200)))))
asyncio.run(main())
"""
    with cloche.Sandbox(network=policy) as box:
        result = box.run_program(code)
        assert result.error is None, result.stderr
        assert result.stdout == f"{sum(range(200))}\n"
        assert len(result.network) == 200
        assert {(each.verdict, each.reason) for each in result.network} == {("allowed", "")}
