"""The verbs about sandboxes: make, find, list, change, pause, resume, measure, follow and end them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from time import time
from typing import Any, NamedTuple

from cloche.clock import steady
from cloche.configuration import Configuration
from cloche.engine.host_only import on_this_host
from cloche.errors import InvalidRun, Refused
from cloche.model.environments import Environment
from cloche.model.files import Mount
from cloche.model.network import Network, NetworkPolicy
from cloche.model.records import SandboxRecord
from cloche.model.result import Usage
from cloche.policy import lifetimes, limits
from cloche.policy.amounts import check_amount
from cloche.policy.caller import ANYBODY, Caller
from cloche.policy.isolation import check_isolation
from cloche.policy.keys import Keyring
from cloche.policy.mounts import MountPolicy
from cloche.policy.network import policy_for
from cloche.sandbox.checkpoints import MAX_CHECKPOINTS
from cloche.sandbox.checks import checked_mounts, checked_packages
from cloche.sandbox.sandbox import AsyncSandbox
from cloche.service import packages, start_commands
from cloche.service.environments import OwnedEnvironments
from cloche.service.event_log import EventLog
from cloche.service.events import ToolRequested
from cloche.service.identity import new_id
from cloche.service.lifecycle import Lifecycle
from cloche.service.live import LiveSandbox, SandboxView
from cloche.service.run import current
from cloche.service.secrets import Secrets
from cloche.service.snapshots import Snapshots
from cloche.service.verbs import verb
from cloche.service.workspaces.save import WorkspaceSaver
from cloche.service.workspaces.workspaces import Workspaces
from cloche.store.journal import Journal
from cloche.store.store import Store

_MAX_REMEMBERED = 1000  # idempotency keys of one caller


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSandbox:
    """What a caller wants a sandbox to be."""

    limits: Mapping[str, Any] = field(default_factory=dict)  # by name; a limit that is not named has its default
    env: Mapping[str, str] = field(default_factory=dict)
    env_for: Callable[[str], Mapping[str, str]] | None = None  # further variables, made from the sandbox's id
    mounts: Mapping[str, str] | Sequence[Mount] = ()
    network: Network | None = None  # None: none, or the one that the workspace had
    packages: Iterable[str] | Mapping[str, Iterable[str]] = ()  # installed before anything runs
    environment: str | None = None  # from which the sandbox starts
    isolation: str = "auto"
    metadata: Mapping[str, str] | None = None
    ttl: float | None = None
    idle_timeout: float | None = None
    pauses: bool = False  # pause instead of ending when the time is up
    tools: Sequence[str] = ()  # functions of the caller's that code inside may call
    undo: bool = False
    checkpoints: int = MAX_CHECKPOINTS
    persistent: bool = False
    workspace: str | None = None
    snapshot: str | None = None  # whose files to begin with


class Repetition(NamedTuple):
    """How a request says that it may be a repetition: its idempotency key, and a digest of all that it asks for."""

    key: str
    digest: str


class _Remembered(NamedTuple):
    digest: str
    made: asyncio.Future[str]  # the sandbox's id; empty if it could not be created


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox, living or ended."""

    record: SandboxRecord
    idle_timeout: float | None  # of a living sandbox
    paused: bool


class Sandboxes:
    """All sandboxes that live on between requests."""

    def __init__(
        self,
        configuration: Configuration,
        mounts: MountPolicy,
        store: Store,
        journal: Journal,
        keyring: Keyring,
        lifecycle: Lifecycle,
        workspaces: Workspaces,
        snapshots: Snapshots,
        secrets: Secrets,
        environments: OwnedEnvironments,
    ) -> None:
        self._configuration, self._mounts = configuration, mounts
        self._store, self._journal = store, journal
        self._keyring, self._lifecycle = keyring, lifecycle
        self._workspaces, self._snapshots, self._secrets = workspaces, snapshots, secrets
        self._environments = environments
        self._made: dict[str, dict[str, _Remembered]] = {}  # by the caller's key and the idempotency key

    # --- making

    @verb("run")
    async def create(self, caller: Caller, request: NewSandbox, repetition: Repetition | None = None) -> SandboxInfo:
        """Make a sandbox.  A repeated request gets the same sandbox; another request with its key is refused."""
        if repetition is None:
            return await self._create(caller, request)
        remembered = self._made.setdefault(caller.key_id, {})
        while (before := remembered.get(repetition.key)) is not None:
            if before.digest != repetition.digest:
                raise Refused(
                    "This Idempotency-Key was used before, for a different request.",
                    hint="Send the same request again, or use a new key for a new request.",
                )
            if identity := await asyncio.shield(before.made):
                return await self.info(caller, identity)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        remembered[repetition.key] = _Remembered(repetition.digest, future)
        while len(remembered) > _MAX_REMEMBERED:
            remembered.pop(next(iter(remembered)))
        try:
            info = await self._create(caller, request)
        except BaseException:
            remembered.pop(repetition.key, None)
            future.set_result("")
            raise
        future.set_result(info.record.id)
        return info

    async def _create(self, caller: Caller, request: NewSandbox) -> SandboxInfo:
        settings, now, begun = self._configuration, time(), steady()
        ttl = lifetimes.ttl_for(request.ttl, settings)
        idle_timeout = lifetimes.idle_timeout_for(request.idle_timeout, settings)
        metadata = _checked_metadata(request.metadata)
        identity = new_id("sbx", now)
        network = await self._policy(caller, request)
        wanted = checked_packages(request.packages)
        await packages.check_packages(caller, wanted)
        environment = None
        if request.environment is not None:
            environment = await self._environments.found(caller, request.environment)
        box = self._box(request, identity, network.effective, environment)
        on_this_host(box).begin_with(wanted, packages.bound_on(caller))
        account = self._lifecycle.charges.account(caller)
        self._lifecycle.reserve(account.meter.sandboxes)
        record, saver, live, counted = None, None, None, False
        try:
            account.meter.check_day()
            account.meter.begin_sandbox()
            counted = True
            saver = await self._workspace_saver(caller, box, identity, request)
            record = SandboxRecord(
                id=identity,
                owner=caller.owner,
                key=caller.key_id,
                state="alive",
                created=now,
                wall=box.wall,
                limits=box.limits.as_dict(),
                metadata=metadata,
                expires=begun + ttl,
                persistent=saver is not None,
                workspace=None if saver is None else saver.workspace.id,
            )
            live = LiveSandbox(box, record, idle_timeout, account, self._lifecycle.retention, network)
            live.pauses = request.pauses
            if saver is not None:
                live.lost_secrets = saver.workspace.lost_secrets if request.network is None else ()
                saver.note_network(network.requested)
            self._journal.note(record)
            await box.open()
            if environment is not None and (request.snapshot is not None or request.workspace is not None):
                await start_commands.clear(box)
            if saver is not None:
                await saver.fill([mount.target for mount in checked_mounts(request.mounts)])
            if request.snapshot is not None:
                await self._snapshots.fill(caller, request.snapshot, box)
            if saver is not None or request.snapshot is not None:
                await on_this_host(box).packages.attach_again()
            if environment is not None:
                await start_commands.begin(box, environment)
            details = {"limits": record.limits, "network": network.effective.as_dict()}
            self._lifecycle.audit.note(caller, "sandbox.create", record.id, details)
        except BaseException:
            self._lifecycle.give_up()
            if counted:
                account.meter.end_sandbox()
            await box.close()
            if live is not None:
                await live.charge()
            if record is not None:
                self._lifecycle.note(replace(record, state="ended", ended=time(), reason="it could not be started"))
            if saver is not None:
                await self._workspaces.release(saver.workspace, is_new=request.workspace is None)
            raise
        self._lifecycle.add(live)
        if saver is not None:
            live.saver, saver.on_problem = saver, live.happened
            live.saving_task = asyncio.create_task(saver.save_periodically(live.is_busy))
        return _info(live)

    async def _policy(self, caller: Caller, request: NewSandbox) -> NetworkPolicy:
        """The policy that the caller wants, bounded: a workspace's own, unless the request names one."""
        wanted, is_from_workspace = request.network or Network(), False
        if request.network is None and request.workspace is not None:
            wanted, is_from_workspace = self._workspaces.find(caller, request.workspace).network, True
        policy = policy_for(wanted, caller, self._configuration)
        # Files must not become unreachable because a secret has been removed.
        filled = await self._secrets.filled(caller.owner, policy.effective, drops_missing=is_from_workspace)
        return policy.replace(effective=filled)

    def _box(
        self, request: NewSandbox, identity: str, network: Network, environment: Environment | None
    ) -> AsyncSandbox:
        check_isolation(request.isolation)
        bounded = limits.limits_for(request.limits, self._configuration)
        return AsyncSandbox(
            **bounded.by_name(),
            env={**request.env, **({} if request.env_for is None else request.env_for(identity))},
            mounts=self._mounts.check(checked_mounts(request.mounts)),
            network=None if network.is_none else network,
            environment=environment,  # type: ignore[arg-type]  # found already, perhaps as the caller's own
            tools={name: _remote_tool(name) for name in request.tools},
            undo=request.undo,
            checkpoints=request.checkpoints,
            isolation=request.isolation,
            url="",  # on this host, whatever the environment says
        )

    async def _workspace_saver(
        self, caller: Caller, box: AsyncSandbox, identity: str, request: NewSandbox
    ) -> WorkspaceSaver | None:
        """Open or make the workspace of a persistent sandbox."""
        if request.workspace is not None:
            return WorkspaceSaver(box, *await self._workspaces.open(caller.owner, request.workspace, identity))
        return (
            WorkspaceSaver(box, *await self._workspaces.begin(caller.owner, identity)) if request.persistent else None
        )

    # --- finding

    @verb("read")
    async def view(self, caller: Caller, identity: str, *, paused: bool = True) -> SandboxView:
        """A living sandbox; raises Ended or Gone, and Refused for a paused one where `paused` is False."""
        return SandboxView(await self._lifecycle.find(caller, identity, paused=paused))

    @verb("read")
    async def info(self, caller: Caller, identity: str) -> SandboxInfo:
        """A sandbox, living or ended."""
        record = await self._lifecycle.record(caller, identity)
        return self._described(record)

    @verb("read")
    async def list(
        self, caller: Caller, state: str | None, metadata: Mapping[str, str], limit: int, after: str | None
    ) -> tuple[Sequence[SandboxInfo], str | None]:
        """A page of sandboxes, newest first, and where the next page begins."""
        check_amount("filters", len(metadata))
        await self._journal.flush()
        found, following = await self._store.sandboxes(
            caller.owner, state=state, metadata=metadata, limit=limit, after=after
        )
        return [self._described(record) for record in found], following

    @verb("read")
    def living(self, caller: Caller) -> Sequence[SandboxView]:
        """The sandboxes that are alive now."""
        return [SandboxView(live) for live in self._lifecycle.owned_by(caller.owner)]

    def owner_of(self, identity: str) -> Caller | None:
        """The caller whose key made a living sandbox, unless that key was revoked.

        For doors that check another proof than a key, such as a sandbox's token, and then act for its owner.
        """
        live = self._lifecycle.get(identity)
        if live is None:
            return None
        key = live.record.key
        return ANYBODY if key == ANYBODY.key_id else self._keyring.holder(key)

    def when_ended(self, callback: Callable[[str], None]) -> None:
        """Call back with the id of each sandbox that ends."""
        self._lifecycle.when_ended.append(callback)

    def _described(self, record: SandboxRecord) -> SandboxInfo:
        live = self._lifecycle.get(record.id)
        if live is None:
            return SandboxInfo(record, None, False)
        return SandboxInfo(record, live.idle_timeout, live.box.paused)

    # --- changing

    @verb("run")
    async def change(self, caller: Caller, identity: str, changes: Mapping[str, Any]) -> SandboxInfo:
        """Change the time, the idle time or the metadata; None is the longest time that the operator allows."""
        live, settings = await self._lifecycle.find(caller, identity, paused=True), self._configuration
        record = live.record
        if "metadata" in changes:
            record = replace(record, metadata=_checked_metadata(changes["metadata"]))
        if "ttl" in changes:
            record = replace(record, expires=steady() + lifetimes.longest_unless("ttl", changes["ttl"], settings))
        if "idle_timeout" in changes:
            live.idle_timeout = lifetimes.longest_unless("idle_timeout", changes["idle_timeout"], settings)
        live.record = record
        self._lifecycle.note(record)
        return _info(live)

    @verb("run")
    async def pause(self, caller: Caller, identity: str) -> None:
        """Stop everything inside, and the sandbox's clock; variables, programs and files stay."""
        await self._lifecycle.pause(await self._lifecycle.find(caller, identity))

    @verb("run")
    async def pause_if_possible(self, caller: Caller, identity: str) -> bool:
        """Pause where the wall can; return whether the sandbox is paused."""
        return await self._lifecycle.pause_if_possible(await self._lifecycle.find(caller, identity, paused=True))

    @verb("run")
    async def resume(self, caller: Caller, identity: str, ttl: float | None = None) -> None:
        """Let a paused sandbox continue, for the time that was left or for `ttl`.  A running one is fine."""
        live = await self._lifecycle.find(caller, identity, paused=True)
        if live.box.paused:
            for account in (self._lifecycle.charges.account(caller), live.account):
                account.meter.check_day()
            await self._lifecycle.resume(live, ttl)

    @verb("run")
    async def kill(self, caller: Caller, identity: str, reason: str = "it was ended by its owner") -> None:
        """End a sandbox and everything in it.  One that has ended already is fine."""
        await self._lifecycle.kill(caller, identity, reason)

    # --- observing

    @verb("read")
    async def usage(self, caller: Caller, identity: str) -> Usage:
        live = await self._lifecycle.find(caller, identity)
        return await live.box.usage()

    @verb("read")
    async def follow(
        self, caller: Caller, identity: str, *, output: bool = True
    ) -> AbstractAsyncContextManager[EventLog]:
        """The feed of everything that happens in the sandbox.  `output`: the client wants what programs print, too."""
        live = await self._lifecycle.find(caller, identity, paused=True)
        return live.followed() if output else nullcontext(live.feed)


def _info(live: LiveSandbox) -> SandboxInfo:
    return SandboxInfo(live.record, live.idle_timeout, live.box.paused)


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """A few short texts by short names."""
    given = metadata or {}
    if not isinstance(given, Mapping):
        raise InvalidRun("metadata is an object of texts.")
    check_amount("metadata", len(given))
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str) or not 0 < len(name) <= 100 or len(value) > 1000:
            raise InvalidRun("metadata is an object of texts: names up to 100 characters, values up to 1,000.")
    return dict(given)


def _remote_tool(name: str) -> Callable[..., Awaitable[Any]]:
    """A function that the caller carries out: the client that follows the run is asked."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        run = current.get(None)
        if run is None:
            raise RuntimeError("no client follows this code")
        return await run.ask(lambda call: ToolRequested(call, name, list(args), kwargs))

    return call
