"""Name servers that lie: answers that flip, that never come, and that come in floods."""

from __future__ import annotations

import asyncio
import socket
import threading
from itertools import count

import pytest

from cloche.egress import dns, resolver
from cloche.egress.addresses import Address, is_public
from cloche.egress.attempts import MAX_HOST, MAX_KEPT, Attempts
from cloche.egress.connection import Connection
from cloche.egress.decision import NotAllowed, Policy
from cloche.egress.name_server import NameServer
from cloche.egress.resolver import Resolver, Unresolved
from cloche.egress.room import Room
from cloche.egress.sandbox import SandboxEgress
from cloche.egress.stand_ins import MAX_NAMES, StandIns
from cloche.model.network import Network

PUBLIC = "93.184.215.14"
PRIVATE = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1", "fd00:ec2::254", "64:ff9b::7f00:1")
FLIPS = 1000


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were asked outside; each answer is another one, public or not."""
    names: list[str] = []

    def ask(name: str) -> list[str]:
        names.append(name)
        turn = len(names)
        private = PRIVATE[turn % len(PRIVATE)]
        return ([PUBLIC], [private], [private, PUBLIC], [PUBLIC, private])[turn % 4]

    monkeypatch.setattr(resolver, "_ask_host", ask)
    return names


@pytest.mark.parametrize("is_checked", [True, False])
async def test_no_flip_leads_to_a_closed_address(
    is_checked: bool, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection goes to an address that was checked, of the one look-up that belongs to it."""
    if not is_checked:
        monkeypatch.setattr(Policy, "_is_open", lambda *_: True)
    reached: list[Address] = []

    async def connect(_: Connection, address: Address) -> socket.socket:
        reached.append(address)
        raise OSError("this is far enough")

    monkeypatch.setattr(Connection, "_connect", connect)
    sandbox = SandboxEgress()
    sandbox.replace(Policy(Network(["rebind.test"])), {}, frozenset(), {})
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(sandbox, ours)
        connection.host, connection.port = "rebind.test", 443
        for number in range(FLIPS):
            sandbox.resolver = Resolver()  # which has forgotten the last answer
            with pytest.raises(NotAllowed):
                await connection.dial()
            assert len(asked) == number + 1
    assert all(map(is_public, reached)) is is_checked
    assert len(reached) >= FLIPS / 2


async def test_names_without_a_rule_are_never_asked_outside(asked: list[str]) -> None:
    server = NameServer(Resolver(), StandIns(), lambda work: work.close() is None)
    server.policy = Policy(Network(["good.test", "*.wide.test"], deny=["bad.wide.test"]))
    for number in range(500):
        for name in (f"secret{number}.tunnel.test", f"secret{number}.good.test", "bad.wide.test", f"x{number}"):
            for kind in (dns.A, dns.AAAA, 16, 65, 255):
                await server.answer(dns.Question(1, 0, name, kind, b""))
    assert asked == []
    await server.answer(dns.Question(1, 0, "a.wide.test", dns.A, b""))
    assert asked == ["a.wide.test"]


async def test_slow_name_servers_have_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question keeps its turn as long as its thread, although nobody waits for its answer any more."""
    at_once, most, release = count(), [0], threading.Event()
    running: set[str] = set()

    def ask(name: str) -> list[str]:
        running.add(name)
        next(at_once)
        most[0] = max(most[0], len(running))
        release.wait(10)
        running.discard(name)
        return [PUBLIC]

    monkeypatch.setattr(resolver, "_ask_host", ask)
    monkeypatch.setattr(resolver, "_WAIT_S", 0.05)
    mine = Resolver()
    try:
        questions = [asyncio.ensure_future(mine.addresses(f"{number}.slow.test", {})) for number in range(40)]
        done, _ = await asyncio.wait(questions, timeout=0.4)
        assert all(isinstance(each.exception(), Unresolved) for each in done)
        assert len(done) == resolver._AT_ONCE
        assert most[0] == resolver._AT_ONCE
    finally:
        release.set()
        await asyncio.gather(*questions, return_exceptions=True)


async def test_what_is_remembered_is_bounded(asked: list[str]) -> None:
    mine, stand_ins, attempts = Resolver(), StandIns(), Attempts()
    server = NameServer(mine, stand_ins, lambda work: work.close() is None)
    server.policy = Policy(Network(["*.wide.test"], dns="real"))
    for number in range(6000):
        server._true_records(f"{number}.wide.test", server.policy, [parse(PUBLIC)], 4)
        stand_ins.slot(f"{number}.other.test")
    assert sum(map(len, server._true.values())) == 4096
    assert len(stand_ins._names) == MAX_NAMES
    for number in range(resolver._MAX_KEPT + 100):
        await mine.addresses(f"{number}.wide.test", {})
    assert len(mine._kept) == resolver._MAX_KEPT
    for _ in range(100_000):
        attempts.begin("x" * 5000, 443).end()
    logged = attempts.since(0, 0.0, 10**6)
    assert len(logged) == MAX_KEPT
    assert {len(each["host"]) for each in logged} == {MAX_HOST}


def parse(text: str) -> Address:
    from cloche.egress import addresses

    return addresses.parse(text)


def test_no_sandbox_takes_all_room() -> None:
    room = Room()
    room._most = 1000
    shares = []
    for _ in range(4):
        mine = 0
        while room.is_left(mine):
            mine, room.held = mine + 1, room.held + 1
        shares.append(mine)
    assert shares == [500, 250, 125, 63]
