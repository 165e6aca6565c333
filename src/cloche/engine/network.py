"""A sandbox's access to the network: its policy, which the egress process enforces, and the log of its attempts."""

from __future__ import annotations

import os
from json import dumps, loads

from cloche.engine import egress_process
from cloche.engine.network_variables import BUNDLE_WITH_OURS, JAVA_STORE, WGET_SETTINGS, host_bundle, variables
from cloche.errors import InvalidRun, SandboxFailed
from cloche.io.streams import AsyncStream
from cloche.io.tasks import AsyncLock, off_loop, pause
from cloche.model.network import Network, NetworkPolicy
from cloche.model.network_attempt import NetworkAttempt
from cloche.model.network_rules import DNS_PORT, PROXY_PORT
from cloche.model.secret import new_placeholder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cloche.engine.sandbox import AsyncHostSandbox
    from cloche.packages.indexes import PackageIndexes
    from cloche.walls.wall import AsyncHold

_ANSWER_S = 20.0
_WAITS_S = (0.01, 0.1, 1.0)
_MAX_MESSAGE = 1 << 20
_MAX_TRUST = 8 << 20
_MAX_OF_RUN = 1000  # attempts in the result of one run
_MAX_LOG = 10_000
_LONG = 1 << 20  # work that always goes to a thread
BOUND = Network(allow=("public",))  # of a sandbox that no server bounds


class AsyncHostNetwork:
    """The access of one sandbox."""

    def __init__(self, box: AsyncHostSandbox, network: Network) -> None:
        self._box = box
        self.network = _complete(network)
        self._indexes: PackageIndexes | None = None  # of the host, as far as they are known and the policy covers them
        self._asking = AsyncLock()
        self._channel: AsyncStream | None = None
        self._ports: frozenset[int] = frozenset()  # that are open
        self._owed = 0  # answers that have not been read
        self._used = {"used": 0, "count": 0}  # bytes and attempts, as the last answer said
        self._placeholders: dict[str, str] = {}  # of its secrets, by name
        self._trust: dict[str, str] = {}  # the certificates that its programs shall trust, if it has secrets

    async def policy(self) -> NetworkPolicy:
        """The policy in force."""
        return NetworkPolicy(self.network, BOUND, self.network)

    async def replace(self, network: Network) -> NetworkPolicy:
        """Put another policy in force, also for connections that are open."""
        await self._box.open()
        async with self._asking:
            before, self.network = self.network, _complete(network)
            try:
                await self._put_in_force()
            except BaseException:
                self.network = before
                raise
        await self.furnish()
        return await self.policy()

    async def log(self, since: int) -> list[NetworkAttempt]:
        """The attempts after one with this number, the oldest first."""
        async with self._asking:
            return await self._attempts(since, _MAX_LOG, 0.0)

    async def attempts_of_run(self, began: float) -> tuple[NetworkAttempt, ...]:
        """The attempts since a run began, by the monotonic clock, which all processes share."""
        async with self._asking:
            return tuple(await self._attempts(0, _MAX_OF_RUN, began))

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of programs that start now."""
        if self._indexes is None and any(each.kind in ("preset", "any") for each in self.network.allowed()):
            from cloche.packages import indexes as package_indexes

            self._indexes = package_indexes.known()
        return variables(self.network, self._indexes, self._held_placeholders())

    def is_ours(self, port: int) -> bool:
        """Whether Cloche's own sockets listen on a port of the sandbox."""
        return port in self._ports

    async def begin(self, hold: AsyncHold) -> None:
        """Put the policy in force in a sandbox that has just been made, before anything runs in it."""
        async with self._asking:
            await self._put_in_force(hold)

    async def furnish(self) -> None:
        """Write the certificates into the sandbox that its programs need for connections with secrets."""
        if self._trust:
            from base64 import b64decode

            trust, self._trust = self._trust, {}
            await self._box.files.write(BUNDLE_WITH_OURS, trust["pem"].encode(), None, False)
            await self._box.files.write(JAVA_STORE, b64decode(trust["java"]), None, False)
            await self._box.files.write(WGET_SETTINGS, f"ca_certificate = {BUNDLE_WITH_OURS}\n".encode(), None, False)

    async def ensure(self) -> None:
        """Put the policy in force again if the egress process has ended."""
        if self._channel is not None and self._owed == 0 and self._channel.has_something():
            async with self._asking:
                await self._reopen()

    def close(self) -> None:
        """Close the channel, which ends all connections."""
        if self._channel is not None:
            self._channel.close()
            self._channel, self._owed = None, 0

    # --- the egress process

    async def _put_in_force(self, hold: AsyncHold | None = None) -> None:
        for wait_s in _WAITS_S:
            try:
                return await self._send_policy(hold)
            except _Lost:  # the process was killed a moment ago, and takes another one to be gone
                self.close()
                await pause(wait_s)
        await self._send_policy(hold)

    async def _send_policy(self, hold: AsyncHold | None) -> None:
        indexes = self._indexes = await self._find_indexes()
        ports = _ports(self.network, indexes)
        if self._channel is not None and self._owed == 0 and self._channel.has_something():
            self.close()  # the egress process has ended, and its sockets with it
        if self._channel is None:
            if not ports:
                return
            self._channel, self._ports = AsyncStream(egress_process.open_channel()), frozenset()
        missing = sorted(ports - self._ports)
        listeners = await (hold or self._box.held()).listen(missing) if missing else []
        files = [os.memfd_create("policy", os.MFD_CLOEXEC)]
        if self.network.changes_requests:
            files.append(os.memfd_create("trust", os.MFD_CLOEXEC))
        try:
            os.write(files[0], dumps(self._message(indexes, ports)).encode())
            request = {"policy": True, "trust": len(files) > 1, "listeners": [each.port for each in listeners]}
            self._send(request, [*files, *(each.descriptor for each in listeners)])
            # A new sandbox does not wait for the answer: its connections wait for the egress process.
            if hold is None or self.network.changes_requests:
                await self._answer()
            if self.network.changes_requests:
                self._trust = loads(os.pread(files[1], _MAX_TRUST, 0))
        except OSError as problem:
            raise _Lost from problem
        finally:
            for descriptor in (*files, *(each.descriptor for each in listeners)):
                os.close(descriptor)
        self._ports = ports

    async def _reopen(self) -> None:
        self.close()
        await self._put_in_force()

    async def _find_indexes(self) -> PackageIndexes | None:
        """The host's package indexes, if the policy names them: to find them takes a while, once."""
        if "packages" not in (*self.network.allow, *self.network.deny):
            return None
        from cloche.packages import indexes as package_indexes

        return await off_loop(_LONG, package_indexes.find)

    def _message(self, indexes: PackageIndexes | None, ports: frozenset[int]) -> dict[str, Any]:
        from cloche import settings

        loaded = settings.load()
        return {
            "network": self.network.with_values(),
            "placeholders": self._held_placeholders(),
            "bundle": host_bundle() if self.network.changes_requests else "",
            "private": list(loaded.network_private),
            "hosts": dict(loaded.network_hosts),
            "indexes": list(indexes.hosts) if indexes is not None else [],
            "ours": sorted(egress_process.own_ports),
            "ports": sorted(ports),
            **self._used,
        }

    def _held_placeholders(self) -> dict[str, str]:
        """The placeholders of the policy's secrets: a first request may need them before the sandbox is made."""
        names = self.network.secrets
        self._placeholders = {name: self._placeholders.get(name) or new_placeholder(name) for name in names}
        return self._placeholders

    async def _attempts(self, since: int, most: int, after: float) -> list[NetworkAttempt]:
        found: list[NetworkAttempt] = []
        while self._channel is not None and len(found) < most:
            try:
                self._send({"log": since, "after": after})
                page = (await self._answer())["attempts"]
            except (OSError, SandboxFailed):
                await self._reopen()
                break
            if not page:
                break
            found += [NetworkAttempt(**each) for each in page]
            since = found[-1].number
        return found[:most]

    def _send(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        assert self._channel is not None
        self._channel.send_with(dumps(request).encode(), descriptors)
        self._owed += 1

    async def _answer(self) -> dict[str, Any]:
        """The answer to the last request; those to earlier requests, which nobody has awaited, come first."""
        assert self._channel is not None
        answer: dict[str, Any] = {}
        while self._owed:
            message = await self._channel.receive(_MAX_MESSAGE, _ANSWER_S)
            if not message:
                raise _Lost
            self._owed -= 1
            answer = loads(message)
        self._used = {name: answer.get(name, known) for name, known in self._used.items()}
        return answer


def _complete(network: Network) -> Network:
    for name, secret in network.secrets.items():
        if not secret.value:
            raise InvalidRun(f"The secret {name} has no value here.", hint="Only a server stores and keeps secrets.")
    return network


def _ports(network: Network, indexes: PackageIndexes | None) -> frozenset[int]:
    """The ports on which the sandbox needs listening sockets."""
    if network.is_none:
        return frozenset()
    named = {port for each in network.allowed() if each.value != "packages" for port in each.ports()}
    if indexes is not None and "packages" in network.allow:
        named |= {port for _, port in indexes.hosts}
    return frozenset(named | {DNS_PORT, PROXY_PORT})


class _Lost(SandboxFailed):
    def __init__(self) -> None:
        super().__init__("The process for network connections has ended.", hint="Run the program again.")
