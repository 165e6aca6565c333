"""E2B's control API: creates, finds, extends, pauses and ends sandboxes."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.types import Receive, Scope, Send

from cloche.clock import steady
from cloche.doors.e2b.answers import Refusal, answer
from cloche.doors.e2b.metrics import Measures
from cloche.doors.e2b.network import INWARD, checked_network, checked_settings, policy_of, shown
from cloche.doors.e2b.requests import (
    ControlOperation,
    ControlOperations,
    ControlRequest,
    Place,
    Reply,
    Route,
    paged,
    seconds,
    texts,
)
from cloche.doors.e2b.sandboxes import HOME, VERSION, Directory, E2bSandbox, Traits, to_e2b
from cloche.doors.e2b.secrets import SecretRoutes
from cloche.doors.e2b.snapshots import SnapshotRoutes
from cloche.doors.e2b.template_builds import TemplateBuilds
from cloche.doors.e2b.templates import Templates, machine
from cloche.doors.e2b.times import moment, read_time
from cloche.doors.http.dependencies import digest_of
from cloche.doors.routing.access import Access
from cloche.errors import Gone, Refused
from cloche.model.environments import Environment
from cloche.model.network import Network
from cloche.policy.amounts import check_amount
from cloche.policy.caller import Caller
from cloche.service.sandboxes import NewSandbox, Repetition
from cloche.service.service import Service
from cloche.service.snapshots import Snapshot

TIMEOUT_S = 300.0  # default lifetime of a sandbox
_VERSIONS = frozenset(("v2", "v3"))
_FIXED = frozenset(("metrics", "aliases", "tags"))  # second segments of a path that are not names
_PARTED = frozenset(("builds", "files"))  # third segments that a second name follows
_MIB = 1 << 20
_LONGEST_KEY = 255  # characters of an idempotency key, as at E2B


class Control:
    """Answers the requests to /sandboxes, /templates, /snapshots and /secrets."""

    def __init__(self, service: Service, directory: Directory) -> None:
        self._service, self._directory = service, directory
        self._templates, self._builds = Templates(service), TemplateBuilds(service)
        self._snapshots = SnapshotRoutes(service, directory, self._fork, self._time_left, self._templates.remove)
        self.operations: ControlOperations = {
            ("POST", "sandboxes"): ControlOperation(self._create, Access("run", "json")),
            ("GET", "sandboxes"): ControlOperation(self._list, Access("read")),
            ("GET", "sandboxes", ""): ControlOperation(self._detail, Access("read")),
            ("DELETE", "sandboxes", ""): ControlOperation(self._kill, Access("run", "none")),
            ("POST", "sandboxes", "", "connect"): ControlOperation(self._connect, Access("run", "json")),
            ("POST", "sandboxes", "", "timeout"): ControlOperation(self._set_timeout, Access("run", "json")),
            ("POST", "sandboxes", "", "refreshes"): ControlOperation(self._refresh, Access("run", "json")),
            ("PUT", "sandboxes", "", "network"): ControlOperation(self._set_network, Access("run", "json")),
            ("POST", "sandboxes", "", "pause"): ControlOperation(self._pause, Access("run", "json")),
            ("POST", "sandboxes", "", "resume"): ControlOperation(self._resume, Access("run", "json")),
            **self._templates.operations(),
            **self._builds.operations(),
            **self._snapshots.operations(),
            **SecretRoutes(service).operations(),
            **Measures(directory).operations(),
        }
        self._routes = {shape: Route(f"e2b:{'/'.join(('', *shape[1:]))}") for shape in self.operations}

    def find(self, scope: Scope) -> tuple[ControlOperation | None, tuple[str, str]]:
        """Return the operation for a request, or None if it is not supported, and the names in its path."""
        parts = _parts(scope)
        shape = (scope["method"], *parts)
        name = part = ""
        if len(parts) > 1 and parts[1] not in _FIXED:
            name = parts[1]
            shape = (scope["method"], parts[0], "", *parts[2:])
            if len(parts) > 3 and parts[2] in _PARTED:
                part = parts[3]
                shape = (*shape[:4], "", *shape[5:])
        elif parts[1:2] == ["aliases"] and len(parts) == 3:
            name = parts[2]
            shape = (*shape[:3], "")
        operation = self.operations.get(shape)
        if operation is not None:
            scope["route"] = self._routes[shape]
        return operation, (name, part)

    def uploader(self, scope: Scope) -> Caller | None:
        """Return the caller to whom an upload's address was given; None for all other requests."""
        if scope["method"] != "PUT":
            return None
        token = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        return self._builds.uploader(scope["method"], _parts(scope), token)

    async def answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        caller: Caller,
        operation: ControlOperation | None,
        found: tuple[str, str],
    ) -> None:
        """Run the operation for an admitted caller."""
        if operation is None:
            raise _unsupported(next(iter(_parts(scope)), ""), f"{scope['method']} {scope['path']}")
        reply = await operation.handler(ControlRequest(scope, receive, caller, *found))
        await answer(send, reply.status, reply.payload, reply.headers)

    async def wake(self, sandbox: E2bSandbox) -> bool:
        """Return whether a request can use the sandbox, after resuming a paused one that has auto-resume."""
        view, sandboxes = sandbox.view, self._service.sandboxes
        if not view.paused and not sandbox.is_over:
            return True
        caller = sandbox.caller
        if caller is None or (not view.pauses and not view.paused):
            return False  # the service will end it in a moment
        async with sandbox.turn:
            if not view.paused and sandbox.is_over and not await sandboxes.pause_if_possible(caller, view.id):
                return False
            if view.paused and sandbox.traits.auto_resume:
                await sandboxes.resume(caller, view.id, sandbox.traits.timeout_s)
        return not view.paused

    # --- creating and listing

    async def _create(self, request: ControlRequest) -> Reply:
        body = await request.body()
        template = str(body.get("templateID") or "base")
        snapshot = self._snapshots.find(request.caller, template)
        network = checked_network(body)
        for name in ("iam", "volumeMounts"):
            if body.get(name):
                raise Refusal(400, f"`{name}` is not supported by this server.")
        ttl, resume = self._time_left(body), body.get("autoResume") or {}
        if not isinstance(resume, dict):
            raise Refusal(400, "autoResume is an object.")
        environment = None
        if snapshot is None:
            template, environment = await self._templates.find(request.caller, template)
        traits = Traits(
            template=template,
            timeout_s=ttl,
            auto_resume=bool(resume.get("enabled")),
            is_from_e2b=True,
            is_secured=body.get("secure") is not False,
            is_public=network.get("allowPublicTraffic") is not False,
            mask_host=str(network.get("maskRequestHost") or ""),
            forgets=body.get("autoPauseMemory") is False,
            network=network,
            internet=body.get("allow_internet_access"),
            **_traits_of(environment),
        )
        wanted = NewSandbox(
            network=self._policy(request, traits.internet, network),
            env=texts(body, "envVars"),
            metadata=texts(body, "metadata"),
            ttl=ttl,
            pauses=bool(body.get("autoPause")),
            snapshot=None if snapshot is None else snapshot.id,
            environment=traits.environment,
        )
        repetition = None
        if key := request.header(b"idempotency-key"):
            if len(key) > _LONGEST_KEY:
                raise Refusal(400, f"An Idempotency-Key has at most {_LONGEST_KEY} characters.")
            repetition = Repetition(key, digest_of("POST", request.scope["path"], body))
        return Reply(201, self._made(request, await self._make(request, wanted, traits, repetition)))

    async def _make(
        self, request: ControlRequest, wanted: NewSandbox, traits: Traits, repetition: Repetition | None = None
    ) -> E2bSandbox:
        env = {"HOME": HOME, **wanted.env, "E2B_SANDBOX": "true", "E2B_TEMPLATE_ID": traits.template}
        complete = replace(
            wanted,
            limits=machine(self._service.configuration, traits.labels),
            env=env,
            env_for=lambda identity: {"E2B_SANDBOX_ID": to_e2b(identity)},
            idle_timeout=self._service.configuration.max_ttl,  # an unused E2B sandbox lives as long as a used one
        )
        made = await self._service.sandboxes.create(request.caller, complete, repetition)
        sandbox = await self._directory.find(request.caller, made.record.id)
        if not sandbox.traits.is_from_e2b:  # not a repeated request
            sandbox.traits = traits
        return sandbox

    async def _fork(
        self, request: ControlRequest, source: E2bSandbox, snapshot: Snapshot, ttl: float
    ) -> dict[str, Any]:
        wanted = NewSandbox(
            network=source.view.network.requested,
            env=source.view.env,
            metadata=source.view.record.metadata,
            ttl=ttl,
            pauses=source.view.pauses,
            snapshot=snapshot.id,
            environment=source.traits.environment,
        )
        traits = replace(source.traits, timeout_s=ttl, is_from_e2b=True)
        return self._made(request, await self._make(request, wanted, traits))

    def _policy(self, request: ControlRequest, internet: Any, network: dict[str, Any]) -> Network:
        return policy_of(internet, network, self._service.networks.bound(request.caller))

    def _time_left(self, body: dict[str, Any]) -> float:
        ttl, most = seconds(body, "timeout", TIMEOUT_S), self._service.configuration.max_ttl
        if ttl > most:
            raise Refusal(400, f"Timeout cannot be greater than {most / 3600:g} hours.")
        return max(ttl, 0.001)

    def _made(self, request: ControlRequest, sandbox: E2bSandbox) -> dict[str, Any]:
        return {
            "sandboxID": sandbox.id,
            "templateID": sandbox.traits.template,
            "alias": sandbox.traits.template,
            "clientID": "cloche",
            "envdVersion": VERSION,
            "envdAccessToken": sandbox.token,
            "trafficAccessToken": sandbox.traffic_token,
            "domain": self._domain(request),
        }

    def _domain(self, request: ControlRequest) -> str:
        """Return the domain below which the ports of sandboxes have host names."""
        domain, port = self._service.configuration.ports_domain, request.header(b"host").rpartition(":")[2]
        return f"{domain}:{port}" if port.isdecimal() else domain

    async def _list(self, request: ControlRequest) -> Reply:
        query = request.query
        metadata = dict(parse_qsl(query.get("metadata", ""), keep_blank_values=True))
        check_amount("filters", len(metadata))
        metadata = {unquote(name): unquote(value) for name, value in metadata.items()}
        states = set(filter(None, query.get("state", "").split(","))) or {"running", "paused"}
        template = query.get("template")
        since = read_time(query["startedAfter"], "startedAfter") if "startedAfter" in query else None
        found = [
            sandbox
            for sandbox in self._directory.all(request.caller)
            if metadata.items() <= sandbox.view.record.metadata.items()
            and sandbox.state in states
            and template in (None, sandbox.traits.template)
            and (since is None or sandbox.started >= since)
        ]
        ascending = query.get("order") == "asc"
        return paged(request, found, lambda one: Place(one.started, one.id), self._listed, ascending=ascending)

    def _listed(self, sandbox: E2bSandbox) -> dict[str, Any]:
        record, limits = sandbox.view.record, sandbox.view.limits
        return {
            "sandboxID": sandbox.id,
            "templateID": sandbox.traits.template,
            "alias": sandbox.traits.template,
            "clientID": "cloche",
            "startedAt": moment(record.created),
            "endAt": moment(sandbox.ends),
            "cpuCount": ceil(limits.cpu),
            "memoryMB": limits.memory_bytes // _MIB,
            "diskSizeMB": limits.disk_bytes // _MIB,
            "state": sandbox.state,
            "envdVersion": VERSION,
            "metadata": record.metadata,
            "volumeMounts": [],
        }

    async def _detail(self, request: ControlRequest) -> Reply:
        sandbox = await self._directory.find(request.caller, request.name)
        traits = sandbox.traits
        return Reply(
            200,
            {
                **self._listed(sandbox),
                # The token lets its holder run code, so a key that may only read does not get it.
                **({"envdAccessToken": sandbox.token} if request.caller.may("run") else {}),
                "domain": self._domain(request),
                "allowInternetAccess": traits.internet is not False and not sandbox.view.network.effective.is_none,
                "network": shown(traits.network, request.caller.may("run")),
                "lifecycle": {
                    "autoResume": traits.auto_resume,
                    "onTimeout": "pause" if sandbox.view.pauses else "kill",
                },
            },
        )

    async def _kill(self, request: ControlRequest) -> Reply:
        sandbox = await self._directory.find(request.caller, request.name)
        await self._service.sandboxes.kill(request.caller, sandbox.view.id)
        return Reply()

    # --- lifetime

    async def _connect(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._directory.find(request.caller, request.name), await request.body()
        ttl = self._time_left(body)
        async with sandbox.turn:
            was_paused = sandbox.view.paused
            if was_paused:
                await self._service.sandboxes.resume(request.caller, sandbox.view.id, ttl)
                if body.get("memory") is False or sandbox.traits.forgets:
                    await sandbox.forget(request.caller)
        if not was_paused and steady() + ttl > sandbox.ends:
            await self._service.sandboxes.change(request.caller, sandbox.view.id, {"ttl": ttl})
        return Reply(201 if was_paused else 200, self._made(request, sandbox))

    async def _pause(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._directory.find(request.caller, request.name), await request.body()
        async with sandbox.turn:
            if sandbox.view.paused:
                raise Refusal(409, f"Sandbox {request.name} is already paused")
            if body.get("memory") is False:
                await sandbox.forget(request.caller)
            try:
                await self._service.sandboxes.pause(request.caller, sandbox.view.id)
            except Refused as problem:
                raise Refusal(400, problem.message) from None  # to a client, 409 means that it is paused already
        return Reply()

    async def _resume(self, request: ControlRequest) -> Reply:
        sandbox = await self._directory.find(request.caller, request.name)
        if not sandbox.view.paused:
            raise Refusal(409, f"Sandbox {request.name} is already running")
        return await self._connect(request)

    async def _set_timeout(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._running(request), await request.body()
        await self._service.sandboxes.change(request.caller, sandbox.view.id, {"ttl": self._time_left(body)})
        return Reply()

    async def _refresh(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._running(request), await request.body()
        ttl = self._time_left({"timeout": body.get("duration")})
        if steady() + ttl > sandbox.ends:
            await self._service.sandboxes.change(request.caller, sandbox.view.id, {"ttl": ttl})
        return Reply()

    async def _running(self, request: ControlRequest) -> E2bSandbox:
        """Find a sandbox that is not paused.  Clients before 2.5 resume a sandbox when extending it answers 404."""
        sandbox = await self._directory.find(request.caller, request.name)
        if sandbox.view.paused:
            raise Gone(f"Sandbox {request.name} is not running.")
        return sandbox

    async def _set_network(self, request: ControlRequest) -> Reply:
        sandbox, body = await self._directory.find(request.caller, request.name), await request.body()
        network, internet = checked_settings(body), body.get("allow_internet_access")
        network.pop("allow_internet_access", None)
        wanted = self._policy(request, internet, network)
        # E2B replaces all settings; the secrets that came in Cloche's own way are not among them.
        others = {name: each for name, each in sandbox.view.network.requested.secrets.items() if not each.stored}
        wanted = wanted.replace(secrets={**others, **wanted.secrets})
        await self._service.networks.replace(request.caller, sandbox.view.id, wanted)
        kept = {name: value for name, value in sandbox.traits.network.items() if name in INWARD}
        sandbox.traits.network, sandbox.traits.internet = {**network, **kept}, internet
        return Reply()


def _traits_of(environment: Environment | None) -> dict[str, Any]:
    """Return the traits that a sandbox has from the environment behind its template."""
    if environment is None:
        return {}
    return {
        "folder": environment.folder if environment.folder != HOME else "",
        "user": environment.labels.get("e2b.user", "user"),
        "environment": environment.name,
        "labels": environment.labels,
    }


_MISSING = {
    "volumes": "Volumes are not supported by this server: keep files in snapshots, or in persistent workspaces (/v1).",
    "templates": "Templates cannot be changed or published here: build another one, and delete this one.",
}
_MISSING["volumecontent"] = _MISSING["volumes"]


def _parts(scope: Scope) -> list[str]:
    """Return the segments of the path, without the version."""
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    parts = [unquote(part) for part in raw.decode("latin-1").split("/") if part]
    return parts[1:] if parts and parts[0] in _VERSIONS else parts


def _unsupported(family: str, request: str) -> Refusal:
    if family in _MISSING:
        return Refusal(400, _MISSING[family])
    return Refusal(404, f"{request} is not supported by this server.")
