"""Two joined connections: what passes, and how they end."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.egress.joined import pair

from cloche.egress import pipes
from cloche.egress.meter import Count, Meter
from cloche.egress.refusals import reset
from cloche.egress.splicing import BROKEN, IDLE, QUOTA, splice


class Joint:
    """A program, a server, and the splice between them."""

    def __init__(self, meter: Meter, idle_s: float | None) -> None:
        self.program, accepted = pair()
        dialled, self.server = pair()
        self.inner = (accepted, dialled)
        self.count = Count()
        self.over = asyncio.create_task(splice(accepted, dialled, meter, self.count, idle_s))


@asynccontextmanager
async def joined(meter: Meter | None = None, idle_s: float | None = None) -> AsyncIterator[Joint]:
    joint = Joint(meter or Meter(), idle_s)
    try:
        async with asyncio.timeout(10):
            yield joint
    finally:
        joint.over.cancel()
        await asyncio.wait([joint.over])
        for sock in (joint.program, joint.server):
            sock.close()
        assert [sock.fileno() for sock in joint.inner] == [-1, -1]


async def receive(sock: socket.socket, size: int = 65536) -> bytes:
    return await asyncio.get_running_loop().sock_recv(sock, size)


async def send(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def everything(sock: socket.socket) -> bytes:
    found = bytearray()
    while more := await receive(sock):
        found += more
    return bytes(found)


async def up_to_the_reset(sock: socket.socket) -> bytes:
    found = bytearray()
    try:
        while more := await receive(sock):
            found += more
    except ConnectionResetError:
        return bytes(found)
    raise AssertionError("the connection ended in order")


@pytest.mark.parametrize("meter", [Meter(), Meter(None, 1 << 30), Meter(1 << 30, None)], ids=["free", "quota", "rate"])
async def test_much_passes_both_ways_at_once_and_each_side_ends_by_itself(meter: Meter) -> None:
    up, down = os.urandom(3_000_000), os.urandom(4_000_000)

    async def say(sock: socket.socket, data: bytes) -> None:
        await send(sock, data)
        sock.shutdown(socket.SHUT_WR)

    async with joined(meter) as joint:
        *_, got_up, got_down = await asyncio.gather(
            say(joint.program, up), say(joint.server, down), everything(joint.server), everything(joint.program)
        )
        assert (got_up, got_down) == (up, down)
        assert await joint.over == ""
        assert (joint.count.up, joint.count.down) == (len(up), len(down))
        assert meter.used == len(up) + len(down)


async def test_a_side_that_has_ended_still_gets_its_answer() -> None:
    async with joined() as joint:
        await send(joint.program, b"question")
        joint.program.shutdown(socket.SHUT_WR)
        assert await everything(joint.server) == b"question"
        await send(joint.server, b"answer")
        joint.server.close()
        assert await everything(joint.program) == b"answer"
        assert await joint.over == ""


@pytest.mark.parametrize("has_ended", [False, True], ids=["open", "half-closed"])
async def test_a_reset_is_passed_on_to_the_other_side(has_ended: bool) -> None:
    async with joined() as joint:
        if has_ended:  # nobody reads from the server any more
            joint.server.shutdown(socket.SHUT_WR)
            assert await receive(joint.program) == b""
        reset(joint.server)
        await up_to_the_reset(joint.program) if not has_ended else None
        assert await joint.over == BROKEN
    async with joined() as joint:
        if has_ended:
            joint.program.shutdown(socket.SHUT_WR)
            assert await receive(joint.server) == b""
        reset(joint.program)
        await up_to_the_reset(joint.server) if not has_ended else None
        assert await joint.over == ""


async def test_what_a_server_said_before_it_broke_off_arrives() -> None:
    answer = os.urandom(30_000)  # the server's own system throws away what it has not sent yet
    async with joined() as joint:
        await send(joint.program, b"read in part")
        assert await receive(joint.server, 4) == b"read"
        await send(joint.server, answer)
        joint.server.close()  # with unread bytes: a reset
        assert await up_to_the_reset(joint.program) == answer
        assert await joint.over == BROKEN


@pytest.mark.parametrize("rate", [None, 10 << 20])
async def test_the_quota_ends_the_connection_after_its_last_byte(rate: int | None) -> None:
    meter = Meter(rate, 1_000_003)
    async with joined(meter) as joint:
        talk = asyncio.create_task(send(joint.program, bytes(64 << 20)))
        assert len(await up_to_the_reset(joint.server)) == 1_000_003
        assert await joint.over == QUOTA
        assert (joint.count.up, meter.used) == (1_000_003, 1_000_003)
        with pytest.raises(OSError):  # noqa: PT011  (either a reset or a broken pipe)
            await talk
    async with joined(meter) as joint:
        await send(joint.server, b"x")
        assert await up_to_the_reset(joint.program) == b""


async def test_a_rate_bounds_both_directions_together() -> None:
    loop = asyncio.get_running_loop()
    async with joined(Meter(1_000_000, None)) as joint:
        began = loop.time()
        talks = [asyncio.create_task(send(sock, bytes(1_000_000))) for sock in (joint.program, joint.server)]
        received = 0
        while received < 1_000_000:
            received += len(await receive(joint.program))
        while joint.count.up < 1_000_000:
            await receive(joint.server)
        assert loop.time() - began == pytest.approx(2.0, rel=0.1)
        await asyncio.gather(*talks)


async def test_silence_ends_a_connection_only_where_that_is_wanted() -> None:
    async with joined(idle_s=0.3) as joint:
        for _ in range(4):
            await asyncio.sleep(0.1)
            await send(joint.server, b"x")
            assert await receive(joint.program) == b"x"
        assert await joint.over == IDLE


async def test_a_side_that_reads_nothing_holds_a_bounded_number_of_bytes() -> None:
    async with joined() as joint:
        sent = 0
        try:
            while True:
                async with asyncio.timeout(0.5):
                    await send(joint.program, bytes(65536))
                    sent += 65536
        except TimeoutError:
            pass
        assert sent < 32 << 20  # what the kernel keeps for three sockets
        reset(joint.program)  # and its end is noticed although nothing can pass
        joint.server.close()
        await joint.over


async def test_every_descriptor_is_closed_when_it_is_cancelled_with_bytes_on_their_way() -> None:
    async def blocked() -> None:
        async with joined() as joint:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await send(joint.program, bytes(64 << 20))

    await blocked()
    before = sorted(os.listdir("/proc/self/fd"))
    await blocked()
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("quota", [None, 1 << 20])
@pytest.mark.parametrize("is_program", [True, False], ids=["program", "server"])
async def test_urgent_bytes_pass_like_others(is_program: bool, quota: int | None) -> None:
    """`splice` says that nothing has come, and the kernel that something has: the process would ask without an end."""
    async with joined(Meter(None, quota)) as joint:
        near, far = (joint.program, joint.server) if is_program else (joint.server, joint.program)
        for number in range(3):
            near.send(b"a" * number)
            near.send(b"!", socket.MSG_OOB)
            near.send(b"after")
            found = b""
            while not found.endswith(b"after"):
                found += await receive(far)
            assert found == b"a" * number + b"!after"
        passed = joint.count.up if is_program else joint.count.down
        assert passed == 3 + 3 * len("!after")
        before = time.process_time()
        await asyncio.sleep(0.2)
        assert time.process_time() - before < 0.1, "it waits without working"


async def test_it_works_without_pipes() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with joined() as joint:
        await asyncio.sleep(0.05)  # until it has its other descriptors
        while pipes._spare:
            pipes._spare[0].close()
            del pipes._spare[0]
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            data = os.urandom(500_000)
            talk = asyncio.create_task(send(joint.program, data))
            found = bytearray()
            while len(found) < len(data):
                found += await receive(joint.server)
            await talk
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert found == data
        assert pipes._spare == []
