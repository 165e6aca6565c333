"""Answers the DNS questions of one sandbox: with stand-in addresses, or with true ones where the policy says so."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from cloche.egress import dns, stand_ins
from cloche.egress.addresses import Address, parse
from cloche.egress.decision import NotAllowed, Policy
from cloche.egress.resolver import Resolver, Unresolved
from cloche.egress.stand_ins import StandIns
from cloche.model.network_rules import normal_name

_BATCH = 16  # questions that are read in a row; other sandboxes come next
_MAX_OPEN = 256  # questions of a sandbox that wait for an answer from outside
_MAX_QUESTIONS = 100  # on one TCP connection
_SILENCE_S = 10.0
_MAX_TRUE = 4096  # names of true addresses that are remembered
_LENGTHS = {dns.A: 4, dns.AAAA: 16}


class NameServer:
    """The name server of one sandbox."""

    def __init__(
        self, resolver: Resolver, stand_ins: StandIns, run: Callable[[Coroutine[Any, Any, None]], bool]
    ) -> None:
        self.policy: Policy | None = None
        self._resolver, self._stand_ins, self._run = resolver, stand_ins, run
        self._open = 0
        self._true: dict[Address, set[str]] = {}
        self._true_count = 0  # names, each counted with each of its addresses

    def names_of(self, address: Address) -> list[str]:
        """The names for which a sandbox may have got this address."""
        stand_in = self._stand_ins.name_of(address)
        return [stand_in] if stand_in is not None else sorted(self._true.get(address, ()))

    def readable(self, source: socket.socket) -> None:
        """Read questions from a UDP socket."""
        for _ in range(_BATCH):
            try:
                data, ancillary, _, sender = source.recvmsg(dns.MAX_QUESTION + 1, 256)
            except OSError:
                return
            question = dns.read(data)
            # The same control data sends the answer from the address that was asked.
            asked = [item for item in ancillary if item[0] in (socket.IPPROTO_IP, socket.IPPROTO_IPV6)]
            if isinstance(question, bytes):
                _reply(source, question, asked, sender)
            elif question is not None and self._open < _MAX_OPEN:
                self._open += self._run(self._answer_datagram(source, question, asked, sender))

    async def _answer_datagram(self, source: socket.socket, question: dns.Question, asked: Any, sender: Any) -> None:
        try:
            _reply(source, await self.answer(question), asked, sender)
        finally:
            self._open -= 1

    async def serve(self, connection: socket.socket) -> None:
        """Answer the questions on a TCP connection."""
        loop = asyncio.get_running_loop()
        for _ in range(_MAX_QUESTIONS):
            async with asyncio.timeout(_SILENCE_S):
                length = int.from_bytes(await _exactly(loop, connection, 2), "big")
                if not length or length > dns.MAX_QUESTION:
                    return
                question = dns.read(await _exactly(loop, connection, length))
                if question is None:
                    return
                answer = question if isinstance(question, bytes) else await self.answer(question)
                await loop.sock_sendall(connection, len(answer).to_bytes(2, "big") + answer)

    async def answer(self, question: dns.Question) -> bytes:
        """Answer a question.  A name that no rule covers gets an address as well: the connection is told the reason."""
        name, policy = normal_name(question.name), self.policy
        if name is None or policy is None:
            return question.answer(dns.NO_SUCH_NAME)
        found: list[Address] | None = None
        if policy.may_resolve(name):
            try:
                found = await self._resolver.addresses(name, policy.hosts)
            except Unresolved as problem:
                return question.answer(dns.NO_SUCH_NAME if problem.is_missing else dns.SERVER_FAILURE)
        elif "." not in name:
            return question.answer(dns.NO_SUCH_NAME)  # probably not meant for the network
        if question.kind not in _LENGTHS:
            return question.answer(dns.NO_ERROR)
        if policy.network.dns == "real" and found is not None:
            records = self._true_records(name, policy, found, _LENGTHS[question.kind])
            if records is not None:
                return question.answer(dns.NO_ERROR, records)
        slot = self._stand_ins.slot(name)
        if slot is None:
            return question.answer(dns.REFUSED)
        record = stand_ins.ipv4(slot) if question.kind == dns.A else stand_ins.ipv6(slot)
        return question.answer(dns.NO_ERROR, (record,))

    def _true_records(self, name: str, policy: Policy, found: list[Address], length: int) -> tuple[bytes, ...] | None:
        """The true addresses of a name; None if a program cannot use them, since they would lead to itself."""
        try:
            usable = policy.usable(name, 0, found)
        except NotAllowed:
            return None
        if all(address.is_loopback for address in usable):
            return None
        chosen = [address for address in usable if len(address.packed) == length and not address.is_loopback]
        for address in chosen:
            names = self._true.setdefault(parse(str(address)), set()) if self._true_count < _MAX_TRUE else {name}
            if name not in names:
                names.add(name)
                self._true_count += 1
        return tuple(address.packed for address in chosen)


def _reply(source: socket.socket, answer: bytes, asked: Any, sender: Any) -> None:
    try:
        source.sendmsg([answer], asked, socket.MSG_DONTWAIT, sender)
    except OSError:
        pass  # the program does not wait for it any more, or has no room


async def _exactly(loop: asyncio.AbstractEventLoop, connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = await loop.sock_recv(connection, length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
