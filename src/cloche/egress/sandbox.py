"""One sandbox in the egress process: its policy, its listening sockets, its connections and their bounds."""

from __future__ import annotations

import asyncio
import errno
import socket
import traceback
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cloche.egress import refusals
from cloche.egress.attempts import Attempts
from cloche.egress.connection import Connection
from cloche.egress.decision import Policy
from cloche.egress.meter import Meter
from cloche.egress.name_server import NameServer
from cloche.egress.resolver import Resolver
from cloche.egress.room import ROOM, bound_buffers
from cloche.egress.stand_ins import StandIns
from cloche.model.network_rules import DNS_PORT

if TYPE_CHECKING:
    from cloche.egress.host_secrets import HostSecrets
    from cloche.egress.secrets import Exchange

_BATCH = 4  # connections that are accepted in a row: each costs more than to come back, and others wait
_WORDS = {"reset": "the connection was broken off", "idle": "nothing was sent for a long time"}
_MAX_UNDECIDED = 1024  # connections of a sandbox besides those that its policy allows, and questions
_MAX_ASKERS = 128
_WITH_LARGE_BUFFERS = 16
_NO_ROOM, _REST_S = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM), 0.1


class SandboxEgress:
    """The way out of one sandbox."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._askers: set[asyncio.Task[None]] = set()  # that ask the name server over TCP
        self._listeners: dict[int, list[socket.socket]] = {}
        self._connections: dict[Connection, asyncio.Task[None]] = {}
        self.policy: Policy
        self.attempts, self.resolver = Attempts(), Resolver()
        self.meter = Meter(None, None)
        self.secrets: HostSecrets | None = None
        self.name_server = NameServer(self.resolver, StandIns(), self._run)

    def replace(
        self,
        policy: Policy,
        opened: Mapping[int, list[socket.socket]],
        ports: frozenset[int],
        placeholders: Mapping[str, str],
    ) -> None:
        """Put a policy in force, with further listening sockets; only those on `ports` stay open."""
        self.policy = self.name_server.policy = policy
        if policy.network.changes_requests or self.secrets is not None:
            from cloche.egress.host_secrets import HostSecrets  # imports cryptography, which takes a while

            self.secrets = self.secrets or HostSecrets()
            self.secrets.replace(policy.network, placeholders)
        self.meter.change(policy.network.rate, policy.network.bytes)
        for port, sockets in opened.items():
            for each in sockets:
                self._listen(port, each)
        for port in [port for port in self._listeners if port not in ports]:
            self._close_listeners(port)
        for connection, task in list(self._connections.items()):
            attempt = connection.attempt
            if attempt is not None and attempt.is_allowed and (why := connection.why_it_ends()):
                attempt.reason = f"the network policy was changed, and {why}"
                task.cancel()

    def goes_on(self, used: int, count: int) -> None:
        """Count on from what the sandbox had used already with a process that was killed."""
        self.meter.used, self.attempts.count = max(self.meter.used, used), max(self.attempts.count, count)

    def is_busy(self) -> bool:
        """Whether so many connections are open that no further one needs buffers for the speed of a single one."""
        return len(self._connections) > _WITH_LARGE_BUFFERS

    def why_full(self) -> str:
        """Why no further connection is possible now; empty if one is."""
        most = self.policy.network.connections
        if sum(1 for each in self._connections if each.attempt is not None and each.attempt.is_allowed) >= most:
            return f"{most} connections are open already, and the policy allows no more at once"
        if self.meter.is_used_up:
            return self.explain("quota")
        return ""

    def explain(self, ended: str) -> str:
        """Put the reason for which a relay ended into words."""
        if ended == "quota":
            return f"the quota of {self.policy.network.bytes} bytes is used up"
        return _WORDS.get(ended, ended)

    def exchange(self, host: str, port: int) -> Exchange | None:
        """The exchange of the secrets and headers for this host; None if there are none."""
        return None if self.secrets is None else self.secrets.exchange(host, port)

    def close(self) -> None:
        """End everything: the sandbox is gone."""
        for port in list(self._listeners):
            self._close_listeners(port)
        for task in (*self._tasks, *self._askers, *self._connections.values()):
            task.cancel()

    # --- listening sockets

    def _listen(self, port: int, source: socket.socket) -> None:
        self._listeners.setdefault(port, []).append(source)
        source.setblocking(False)
        # Accepted sockets inherit it.  Otherwise one reader would see a byte that is urgent, and another one would not.
        source.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        bound_buffers(source)  # the program is on this machine: it needs no more for any speed
        if source.type == socket.SOCK_DGRAM:
            self._loop.add_reader(source, self.name_server.readable, source)
        else:
            self._loop.add_reader(source, self._acceptable, port, source)

    def _close_listeners(self, port: int) -> None:
        for source in self._listeners.pop(port):
            self._loop.remove_reader(source)
            source.close()

    def _acceptable(self, port: int, source: socket.socket) -> None:
        for _ in range(_BATCH):
            try:
                client, _ = source.accept()
            except OSError as problem:
                if problem.errno in _NO_ROOM:  # it would be told again at once, and keep this process busy
                    self._loop.remove_reader(source)
                    self._loop.call_later(_REST_S, self._watch_again, port, source)
                return
            mine = len(self._connections) + len(self._askers)
            if mine >= self.policy.network.connections + _MAX_UNDECIDED or not ROOM.is_left(mine):
                refusals.reset(client)
                continue
            client.setblocking(False)
            if port == DNS_PORT:
                self._serve_asker(client)
                continue
            connection = Connection(self, client)
            task = self._loop.create_task(self._serve(connection, client))
            self._connections[connection] = task
            ROOM.held += 1
            task.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: Connection, _: asyncio.Task[None]) -> None:
        ROOM.held -= 1
        del self._connections[connection]

    def _watch_again(self, port: int, source: socket.socket) -> None:
        if source.fileno() >= 0:
            self._loop.add_reader(source, self._acceptable, port, source)

    def _serve_asker(self, client: socket.socket) -> None:
        if len(self._askers) >= _MAX_ASKERS:
            refusals.reset(client)
            return
        task = self._loop.create_task(self._serve_questions(client))
        self._askers.add(task)
        ROOM.held += 1
        task.add_done_callback(self._forget_asker)

    def _forget_asker(self, task: asyncio.Task[None]) -> None:
        ROOM.held -= 1
        self._askers.discard(task)

    async def _serve(self, connection: Connection, client: socket.socket) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await connection.serve()
        except asyncio.CancelledError:
            if client.fileno() >= 0:
                refusals.reset(client)
        except (OSError, EOFError):
            pass  # the program has gone away, or says nothing
        except Exception as problem:  # a fault of ours must cost one connection only
            if connection.attempt is not None:
                connection.attempt.reason = f"a fault of Cloche: {type(problem).__name__}"
            traceback.print_exc()
        finally:
            client.close()
            if connection.attempt is not None:
                connection.attempt.end()

    async def _serve_questions(self, client: socket.socket) -> None:
        try:
            await self.name_server.serve(client)
        except (OSError, EOFError):
            pass
        finally:
            client.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work beside the connections; return whether there is room for it."""
        if len(self._tasks) >= _MAX_UNDECIDED:
            work.close()
            return False
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True
