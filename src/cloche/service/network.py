"""The verbs about a sandbox's access to the network: its policy, a new policy, and the record of attempts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from cloche import settings
from cloche.configuration import Configuration
from cloche.engine import egress_process
from cloche.errors import ClocheError
from cloche.model.network import Network, NetworkPolicy
from cloche.model.network_attempt import NetworkAttempt
from cloche.packages import indexes as package_indexes
from cloche.policy.caller import Caller
from cloche.policy.network import bound_for, policy_for, with_kept_secrets
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.service.lifecycle import Lifecycle
    from cloche.service.secrets import Secrets

logger = logging.getLogger("cloche.network")

_LOOK_S = 0.002  # pause for each attempt in a log, before the log is read again for its sums


@dataclass(frozen=True, slots=True)
class NetworkInfo:
    """A sandbox's policy, with the bound on the caller who reads it.

    The policy has the values of secrets; a door answers with `as_dict`, which has none.
    """

    policy: NetworkPolicy
    lost_secrets: Sequence[str]  # names of secrets that the workspace had and could not keep


class Networks:
    """Reads and changes the policies of living sandboxes."""

    def __init__(self, configuration: Configuration, lifecycle: Lifecycle, secrets: Secrets) -> None:
        self._configuration, self._lifecycle, self._secrets = configuration, lifecycle, secrets
        secrets.when_changed.append(self._secret_changed)

    def close_port(self, port: int) -> None:
        """Keep sandboxes from the port that this server listens on."""
        egress_process.own_ports.add(port)

    def prepare(self) -> None:
        """Look for the host's package indexes before the first sandbox that may reach them: that takes a second."""
        if settings.load().warm and not {"public", "packages"}.isdisjoint(self._configuration.max_network):
            package_indexes.known()

    @verb("read")
    def bound(self, caller: Caller) -> Network:
        """The most that the caller's sandboxes may reach."""
        return bound_for(caller, self._configuration)

    @verb("read")
    async def policy(self, caller: Caller, sandbox: str) -> NetworkInfo:
        """The policy as it was requested, the bound on what this caller may ask for, and the policy in force."""
        live = await self._lifecycle.find(caller, sandbox, paused=True)
        return NetworkInfo(live.network.replace(bound=bound_for(caller, self._configuration)), live.lost_secrets)

    @verb("run")
    async def replace(self, caller: Caller, sandbox: str, requested: Network) -> NetworkInfo:
        """Replace the policy; a secret without a value keeps the value that it has."""
        live = await self._lifecycle.find(caller, sandbox, paused=True)
        async with live.changing_network:
            complete = with_kept_secrets(requested, live.network.requested)
            policy = policy_for(complete, caller, self._configuration)
            policy = policy.replace(effective=await self._secrets.filled(live.owner, policy.effective))
            await live.box.network.replace(policy.effective)
            live.network, live.lost_secrets = policy, ()
            self._lifecycle.audit.note(caller, "network.replace", sandbox, {"network": policy.effective.as_dict()})
        live.happened("network", {"policy": policy.effective.as_dict()})
        if live.saver is not None:
            live.saver.note_network(policy.requested)
            if not live.box.paused:
                await live.save()
        return NetworkInfo(policy, ())

    async def _secret_changed(self, owner: str, name: str) -> None:
        """Put a stored secret's new value in force wherever it is used, or take the secret away."""
        for live in self._lifecycle.owned_by(owner):
            if not any(each.stored.lower() == name for each in live.network.requested.secrets.values()):
                continue
            try:
                async with live.changing_network:
                    wanted = live.network.requested
                    policy = live.network.effective.replace(secrets=wanted.secrets, headers=wanted.headers)
                    policy = await self._secrets.filled(owner, policy, drops_missing=True)
                    await live.box.network.replace(policy)
                    live.network = live.network.replace(effective=policy)
            except ClocheError as problem:
                logger.warning("a secret that has changed is not in force in %s: %s", live.id, problem)

    @verb("read")
    async def log(self, caller: Caller, sandbox: str, since: int = 0) -> Sequence[NetworkAttempt]:
        """The attempts to reach a host, beginning after the attempt with the number `since`."""
        live = await self._lifecycle.find(caller, sandbox, paused=True)
        return await live.box.network.log(since)

    @verb("read")
    async def moved(self, caller: Caller, sandbox: str) -> tuple[int, int]:
        """The bytes that the sandbox has sent and received, as far as its log goes back."""
        live = await self._lifecycle.find(caller, sandbox, paused=True)
        if live.network.effective.is_none and not any(live.moved):
            return 0, 0
        if monotonic() >= live.moved_until:
            try:
                attempts = await live.box.network.log()
            except ClocheError:
                return live.moved
            live.moved = sum(each.bytes_up for each in attempts), sum(each.bytes_down for each in attempts)
            live.moved_until = monotonic() + len(attempts) * _LOOK_S  # streams of usage ask every second
        return live.moved
