"""One connection of a program: finds out the host that it is for, decides, connects, and relays."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from cloche.egress import client_hello, proxy, refusals, splicing, stand_ins, waiting
from cloche.egress.addresses import Address, parse
from cloche.egress.client_hello import NotTls
from cloche.egress.decision import NotAllowed, Policy, Verdict
from cloche.egress.http_heads import MAX_LINE, Refusal, begins_request
from cloche.egress.http_relay import relay_http
from cloche.egress.resolver import Unresolved
from cloche.egress.room import bound_buffers
from cloche.model.network_rules import PROXY_PORT, normal_name

if TYPE_CHECKING:
    from cloche.egress.attempts import Attempt
    from cloche.egress.client_hello import ClientHello
    from cloche.egress.sandbox import SandboxEgress
    from cloche.egress.secrets import Exchange

HTTPS, HTTP = 443, 80
_CONNECT_S = 10.0  # for each address of a host
_FIRST_WORDS_S = 10.0  # for a client to begin, where the protocol is known
# For a client to begin, so that the refusal can be in words: where it is known to begin, and elsewhere.
_KNOWN_REFUSED_S, _REFUSED_S = 1.0, 0.05
_LINGER_S = 1.0
_MAX_HELLO, _MAX_PIECES = 64 << 10, 64
_TLS_HANDSHAKE, _MAX_LINGER = 0x16, 64 << 10
_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"PATCH ", b"OPTIONS ", b"TRACE ", b"CONNECT ", b"PRI ")
_LONGEST_METHOD = 8


class Connection:
    """One accepted connection."""

    def __init__(self, sandbox: SandboxEgress, client: socket.socket) -> None:
        self._sandbox, self._client = sandbox, client
        self._loop = asyncio.get_running_loop()
        self.attempt: Attempt | None = None
        self.host, self.port = "", 0
        self.is_name = True
        self._reached: Address | None = None
        self._named = ""  # in the TLS handshake of a connection to an address
        self._exchange: Exchange | None = None  # the secrets that its host gets
        self._is_answered = False  # the proxy's client knows that the connection is there

    async def serve(self) -> None:
        """Serve the connection to its end."""
        target = self._client.getsockname()
        address, self.port = parse(target[0]), int(target[1])
        if self.port == PROXY_PORT and (address.is_loopback or stand_ins.is_stand_in(address)):
            await proxy.serve(self, self._client)
        elif address.is_loopback or address.is_unspecified:
            refusals.reset(self._client)  # as if nothing listened there: the sandbox's own loopback is not our business
        else:
            names = self._sandbox.name_server.names_of(address)
            await self.relay(self._choose(names) if names else str(address), self.port)

    def _choose(self, names: list[str]) -> str:
        """The name that a connection is for, where several have the same true address: an allowed one comes first."""
        return next((name for name in names if self._policy.of_name(name, self.port).is_allowed), names[0])

    @property
    def _policy(self) -> Policy:
        return self._sandbox.policy

    def judge(self) -> Verdict:
        """Decide about the host by the policy that is in force now."""
        if self.is_name:
            return self._policy.of_name(self.host, self.port)
        address = parse(self.host)
        if stand_ins.is_stand_in(address):
            return Verdict(False, "", "the address stands for no name that this sandbox has looked up")
        return self._policy.of_address(address, self.port)

    def why_it_ends(self) -> str:
        """Why the policy that is in force now does not allow what is open already; empty if it does."""
        ended = "does not allow it any more"
        if not self.judge().is_allowed or (self._named and self._policy.denial(self._named, self.port)):
            return ended
        if self.is_name and self._reached is not None:
            try:
                self._policy.usable(self.host, self.port, [self._reached])
            except NotAllowed:
                return ended
        if self._exchange and not self._exchange.is_like(self._sandbox.exchange(self.host, self.port)):
            return "gives the host other secrets or headers"
        return ""

    async def relay(self, host: str, port: int, answer: bytes = b"", is_request: bool = False) -> None:
        """Connect the client to a host, if the policy allows it.

        `answer` is sent to the client before anything else.  With `is_request`, the client sends an HTTP request for
        the host, as to a proxy.
        """
        self.host, self.port = host, port
        self.is_name = normal_name(host) is not None
        attempt = self.attempt = self._sandbox.attempts.begin(host, port)
        verdict = self.judge()
        attempt.rule, attempt.allow = verdict.rule, verdict.allow
        try:
            if not verdict.is_allowed:
                raise NotAllowed(verdict.reason, verdict.remedy, verdict.rule)
            if full := self._sandbox.why_full():
                raise NotAllowed(full, "Close connections that are no longer needed.")
            attempt.is_allowed = True
            await self._relay_allowed(attempt, answer, is_request)
        except NotAllowed as problem:
            attempt.is_allowed = attempt.is_allowed and problem.status != 403
            attempt.reason, attempt.rule = problem.message, problem.rule or attempt.rule
            await self._refuse(problem, is_asked=bool(answer) and not self._is_answered)
        except (OSError, EOFError) as problem:
            attempt.reason = attempt.reason or _named(problem)
            refusals.reset(self._client)
        finally:
            attempt.end()

    async def _relay_allowed(self, attempt: Attempt, answer: bytes, is_request: bool) -> None:
        if is_request:
            await self._relay_http(attempt, is_proxied=True)
            return
        if answer:
            await self._loop.sock_sendall(self._client, answer)
            self._is_answered = True
        if self.port == HTTP:
            await self._relay_http(attempt)
            return
        if self.port == HTTPS:
            self._check_name(await self._hello(_FIRST_WORDS_S))
            if await self._relay_tls(attempt):
                return
            server = await self.dial()
        else:
            server = await self.dial()
            try:
                first = await self._first_words(server)
                if first[:1] == bytes([_TLS_HANDSHAKE]):
                    self._check_name(await self._hello(_FIRST_WORDS_S))
                    if await self._relay_tls(attempt, server):
                        return
                elif begins_request(first):
                    await self._relay_http(attempt, server=server)
                    return
                elif first:
                    await self._pass_first_line(server, attempt)
            except BaseException:
                server.close()
                raise
        ended = await splicing.splice(self._client, server, self._sandbox.meter, attempt)
        attempt.reason = attempt.reason or self._sandbox.explain(ended)

    async def _relay_tls(self, attempt: Attempt, server: socket.socket | None = None) -> bool:
        """Relay a TLS connection in which a secret may be used; return whether the host may get any."""
        exchange, secrets = self._exchanged(), self._sandbox.secrets
        if exchange is None or secrets is None:
            return False
        from cloche.egress.tls_relay import relay_tls

        ended = await relay_tls(
            self._client,
            self.host,
            self.port,
            self._dial_with(server),
            secrets.authority,
            exchange,
            self._sandbox.meter,
            attempt,
        )
        attempt.reason = attempt.reason or self._sandbox.explain(ended)
        return True

    async def _relay_http(
        self, attempt: Attempt, server: socket.socket | None = None, is_proxied: bool = False
    ) -> None:
        ended = await relay_http(
            self._client,
            self._dial_with(server),
            self.host,
            self.port,
            self._sandbox.meter,
            attempt,
            exchange=self._exchanged(),
            is_proxied=is_proxied,
        )
        attempt.reason = attempt.reason or self._sandbox.explain(ended)

    def _exchanged(self) -> Exchange | None:
        self._exchange = self._sandbox.exchange(self.host, self.port)
        return self._exchange

    def _dial_with(self, server: socket.socket | None) -> Callable[[], Awaitable[socket.socket]]:
        """A function that returns this connection first, and makes another one when it is asked again."""
        dialled = [] if server is None else [server]

        async def dial() -> socket.socket:
            try:
                return dialled.pop() if dialled else await self.dial()
            except NotAllowed as problem:
                raise Refusal(problem.status, problem.message, problem.hint, problem.rule) from None

        return dial

    # --- the server's side

    async def dial(self) -> socket.socket:
        """Connect to the host: it is looked up once, every address is checked, and one of exactly these is used."""
        verdict = self.judge()  # again: the policy may have changed since the last request on this connection
        if not verdict.is_allowed:
            raise NotAllowed(verdict.reason, verdict.remedy, verdict.rule)
        if not self.is_name:
            usable = [parse(self.host)]
        else:
            try:
                found = await self._sandbox.resolver.addresses(self.host, self._policy.hosts)
            except Unresolved as problem:
                raise NotAllowed(str(problem), status=502) from None
            usable = self._policy.usable(self.host, self.port, found)
        problem_seen: BaseException = OSError("no address")
        for address in usable:
            self._reached = address
            try:
                return await self._connect(address)
            except OSError as problem:
                problem_seen = problem
        raise NotAllowed(f"the server cannot be reached: {_named(problem_seen)}", status=502)

    async def _connect(self, address: Address) -> socket.socket:
        server = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            server.setblocking(False)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
            if self._sandbox.is_busy():
                bound_buffers(server)
            async with asyncio.timeout(_CONNECT_S):
                await self._loop.sock_connect(server, (str(address), self.port))
            return server
        except BaseException:
            server.close()
            raise

    # --- the client's first words

    def _check_name(self, hello: ClientHello) -> None:
        """Refuse a TLS connection that names another host than the one it goes to."""
        if hello.server_name == self.host or (not self.is_name and hello.server_name is None):
            return
        if self.is_name:
            named = hello.server_name or "no host"
            raise NotAllowed(f"the TLS handshake names {named} instead of {self.host}")
        self._named = hello.server_name or ""
        denied = self._policy.denial(self._named, self.port)  # an address is no way around `deny`
        if denied is not None:
            raise NotAllowed(denied.reason, denied.remedy, denied.rule)

    async def _hello(self, timeout: float) -> ClientHello:
        """Look at the ClientHello, and leave it to be read again."""
        seen = 0
        async with asyncio.timeout(timeout):
            for _ in range(_MAX_PIECES):  # each is read with all that came before it
                data = await waiting.more_than(self._client, seen, _MAX_HELLO)
                try:
                    hello = client_hello.read(data)
                except NotTls as problem:
                    raise NotAllowed(f"only TLS may pass on port {self.port}: {problem}") from None
                if hello is not None:
                    return hello
                if len(data) == seen:
                    raise EOFError("the client ended within its TLS handshake")
                seen = len(data)
        raise NotAllowed("the TLS handshake came in too many pieces")

    async def _first_words(self, server: socket.socket) -> bytes:
        """What the client says first; nothing if the server speaks first, or the client ends."""
        await waiting.readable(self._client, server)
        try:
            data = self._client.recv(MAX_LINE, socket.MSG_PEEK)
        except BlockingIOError:
            return b""
        try:
            async with asyncio.timeout(_KNOWN_REFUSED_S):  # for a client of HTTP that writes its head bit by bit
                while data.startswith(_METHODS) and begins_request(data) is None:
                    before, data = data, await waiting.more_than(self._client, len(data), MAX_LINE)
                    if len(data) == len(before):
                        break
        except TimeoutError:
            pass
        return data

    async def _pass_first_line(self, server: socket.socket, attempt: Attempt) -> None:
        """Pass on the pieces of the client's first line, until it cannot become one of HTTP or the server speaks.

        HTTP arrives with its whole first line.  Programs that send it in pieces would get around the check of `Host`,
        so they are refused before the line's last piece has passed.
        """
        line, seen = b"", 0
        while True:
            piece = self._client.recv(MAX_LINE, socket.MSG_PEEK)
            found = None
            if not piece or b"\r" in piece or b"\n" in piece or len(line + piece) >= min(2 * seen, MAX_LINE):
                found, seen = begins_request(line + piece), len(line + piece)
            if found:
                raise NotAllowed("the first line of an HTTP request came in pieces")
            if found is False or not piece:
                return
            granted = await self._sandbox.meter.take(len(piece), attempt)
            if not granted:
                return
            piece = self._client.recv(granted)
            line += piece
            await self._loop.sock_sendall(server, piece)
            attempt.up += len(piece)
            try:
                await waiting.readable(self._client, server)
                server.recv(1, socket.MSG_PEEK)
                return  # a server of HTTP waits for the end of the line
            except BlockingIOError:
                continue

    # --- refusals

    async def _refuse(self, problem: NotAllowed, is_asked: bool) -> None:
        """Tell the client, in its own protocol, that it may not connect; then close the connection.

        With `is_asked`, the client has asked the proxy for a connection, and waits for the answer.
        """
        words = b"CONNECT " if is_asked else await self._words_soon()
        if words[:1] == bytes([_TLS_HANDSHAKE]):
            answer = refusals.tls_refusal()
        elif words.startswith(_METHODS):
            answer = refusals.http_refusal(
                problem.status, self.host, self.port, problem.rule, problem.message, problem.hint
            )
        else:
            refusals.reset(self._client)
            return
        try:
            async with asyncio.timeout(_LINGER_S):
                await self._loop.sock_sendall(self._client, answer)
                self._client.shutdown(socket.SHUT_WR)
                # Bytes that nobody has read would make the kernel reset the connection, and the answer would be lost.
                read = 0
                while read < _MAX_LINGER and (piece := await self._loop.sock_recv(self._client, 16 << 10)):
                    read += len(piece)
        except (OSError, TimeoutError):
            pass

    async def _words_soon(self) -> bytes:
        try:
            async with asyncio.timeout(_KNOWN_REFUSED_S if self.port in (HTTP, HTTPS) else _REFUSED_S):
                return await waiting.more_than(self._client, 0, _LONGEST_METHOD)
        except (TimeoutError, OSError):
            return b""


def _named(problem: BaseException) -> str:
    if isinstance(problem, TimeoutError):
        return "it does not answer in time"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return str(problem) or type(problem).__name__
