"""Builds of templates: requested, given files, started, and followed until they are ready or have failed."""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_bytes
from time import time
from typing import Any
from uuid import uuid4

from starlette.types import Receive

from cloche.doors.e2b import template_names as names
from cloche.doors.e2b.answers import BrokenOff, Refusal
from cloche.doors.e2b.base_images import HostFacts
from cloche.doors.e2b.network import policy_of
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Reply
from cloche.doors.e2b.template_steps import FINALIZE, Plan, StepRefused, is_hash, needed_archives, translated
from cloche.doors.e2b.templates import environment_of
from cloche.doors.e2b.times import moment
from cloche.doors.faults import for_client, unexpected
from cloche.doors.routing.access import Access
from cloche.errors import ClocheError, Gone
from cloche.policy.caller import Caller
from cloche.policy.limits import check_value
from cloche.service import host_facts
from cloche.service.events import Notice
from cloche.service.service import Service

_MOST = 20  # builds of one owner that are remembered
_PAGE = 100  # log entries of one answer, as at E2B
_MOST_TEXT, _LINE = 1 << 20, 100  # characters of a build's log, and what each line counts for beside its text
_UPLOAD_S = 3600.0  # as long as a client may take for an upload
_MIB = 1 << 20
_PATH = "/sandbox/.local/bin:/opt/bin:/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class TemplateBuild:
    """One build of a template, as its client follows it."""

    id: str
    owner: str
    name: str  # of the template
    tags: list[str]
    labels: dict[str, str]
    status: str = "waiting"
    log: list[dict[str, Any]] = field(default_factory=list)
    reason: dict[str, Any] | None = None
    size: int = 0  # of the log, in characters

    def line(self, text: str, level: str = "info", when: float | None = None) -> None:
        """Add a line to the log."""
        self.size += len(text) + _LINE
        if self.size < _MOST_TEXT or level == "error":
            level = "warn" if text.startswith(("Warning:", "WARNING:")) else level
            self.log.append({"timestamp": moment(time() if when is None else when), "level": level, "message": text})

    def fail(self, step: str, message: str) -> None:
        """End the build with a failure in a step."""
        self.line(message, "error")
        self.reason = {"message": message, "step": step, "logEntries": self.log[-1:]}
        self.status = "error"


class TemplateBuilds:
    """Answers the requests that build a template."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._secret = token_bytes(32)  # of the links for uploads, which end with the server
        self._known: dict[str, OrderedDict[str, TemplateBuild]] = {}  # by owner and id
        self._tasks: set[asyncio.Task[None]] = set()

    def operations(self) -> ControlOperations:
        return {
            ("POST", "templates"): ControlOperation(self._request, Access("run", "json")),
            ("GET", "templates", "", "files", ""): ControlOperation(self._link, Access("run")),
            ("PUT", "templates", "", "files", ""): ControlOperation(self._upload, Access("run", "upload")),
            ("POST", "templates", "", "builds", ""): ControlOperation(self._start, Access("run", "json")),
            ("GET", "templates", "", "builds", "", "status"): ControlOperation(self._status, Access("read")),
        }

    def uploader(self, method: str, parts: list[str], token: str) -> Caller | None:
        """The caller whose upload link this is: clients send no key with an upload."""
        if method != "PUT" or len(parts) != 4 or parts[2] != "files" or not token:
            return None
        key, _, rest = token.partition(".")
        until, _, given = rest.partition(".")
        if not until.isdecimal() or not until.isascii() or len(until) > 12 or int(until) < time():
            return None
        right = self._signature(key, until, parts[1], parts[3])
        return self._service.keyring.holder(key) if hmac.compare_digest(right.encode(), given.encode()) else None

    # --- before the build

    async def _request(self, request: ControlRequest) -> Reply:
        body = await request.body()
        name, tag = names.split(body.get("name") or body.get("alias"))
        tags = names.tags_of(body, tag)
        names.check_is_free(name)
        labels = self._resources(body)
        build = TemplateBuild(str(uuid4()), request.caller.owner, name, tags, labels)
        known = self._known.setdefault(request.caller.owner, OrderedDict())
        known[build.id] = build
        while len(known) > _MOST:
            oldest = next((each for each in known.values() if each.status != "building"), None)
            if oldest is None:
                break
            del known[oldest.id]
        return Reply(
            202,
            {
                "templateID": name,
                "buildID": build.id,
                "public": False,
                "names": [name],
                "aliases": [name],
                "tags": build.tags,
            },
        )

    def _resources(self, body: dict[str, Any]) -> dict[str, str]:
        """The limits of the template's sandboxes, as labels of its environment."""
        found = {}
        for ours, theirs, unit in (("cpu", "cpuCount", 1), ("memory", "memoryMB", _MIB)):
            value = body.get(theirs)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise Refusal(400, f"{theirs} is a number.")
            check_value(ours, value * unit, self._service.configuration)
            found[f"e2b.{ours}"] = str(value * unit)
        return found

    async def _link(self, request: ControlRequest) -> Reply:
        """Return where the client may upload the files with a hash, and whether they are there already."""
        name, digest = request.name, request.part
        if not is_hash(digest):
            raise Refusal(400, "The hash of files is a SHA-256 in hexadecimal.")
        until = str(int(time() + _UPLOAD_S))
        key = request.caller.key_id
        token = f"{key}.{until}.{self._signature(key, until, name, digest)}"
        scheme = "https" if request.scope["scheme"] == "https" else "http"
        url = f"{scheme}://{request.header(b'host')}/templates/{name}/files/{digest}?token={token}"
        return Reply(201, {"present": await self._service.archives.has(request.caller, digest), "url": url})

    async def _upload(self, request: ControlRequest) -> Reply:
        if not is_hash(request.part):
            raise Refusal(400, "The hash of files is a SHA-256 in hexadecimal.")
        await self._service.archives.keep(request.caller, request.part, _pieces(request.receive))
        return Reply(200, {})

    def _signature(self, key: str, until: str, name: str, digest: str) -> str:
        return hmac.new(self._secret, "\0".join((key, until, name, digest)).encode(), sha256).hexdigest()

    # --- the build

    async def _start(self, request: ControlRequest) -> Reply:
        build, body = self._find(request), await request.body()
        if build.status != "waiting":
            raise Refusal(400, f"The build {build.id} was started before.")
        build.status = "building"
        task = asyncio.create_task(self._build(request.caller, build, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Reply(202, {})

    async def _build(self, caller: Caller, build: TemplateBuild, body: dict[str, Any]) -> None:
        origins: tuple[str, ...] = ()
        try:
            plan = await self._plan(caller, body)
            origins = plan.origins
            for note in plan.notes:
                build.line(note)
            await self._carry_out(caller, build, plan)
        except StepRefused as problem:
            build.fail(problem.origin, _text(problem))
        except ClocheError as problem:
            build.fail(FINALIZE if origins else "base", _text(problem))
        except Refusal as problem:
            build.fail("base", problem.message)
        except Exception as problem:
            build.fail(FINALIZE, _text(unexpected(problem)))
        except BaseException:
            build.fail(FINALIZE, "The server stopped during the build. Build again.")
            raise

    async def _plan(self, caller: Caller, body: dict[str, Any]) -> Plan:
        service = self._service
        archives = await self._archives(caller, body)
        facts = HostFacts(*await host_facts.versions())
        packages = await host_facts.installed_packages()
        base_user = ""
        if template := body.get("fromTemplate"):
            base, tag = names.split(template)
            if base in names.OURS:
                body = {**body, "fromTemplate": None, "fromImage": "e2bdev/base"}
            elif not names.is_reserved(base):
                base_user = (await environment_of(service, caller, template)).labels.get("e2b.user", "")
                body = {**body, "fromTemplate": names.joined(base, tag)}
        return await asyncio.to_thread(
            translated, body, facts, archives.get, lambda: packages, base_user=base_user, path=_PATH
        )

    async def _archives(self, caller: Caller, body: dict[str, Any]) -> dict[str, memoryview]:
        """The uploaded archives that the steps need; the step of a missing one will be refused."""
        found = {name: await self._service.archives.read(caller, name) for name in needed_archives(body)}
        return {name: content for name, content in found.items() if content is not None}

    async def _carry_out(self, caller: Caller, build: TemplateBuild, plan: Plan) -> None:
        labels = {**build.labels, "e2b.build": build.id, "e2b.user": plan.user}
        first, *others = (names.joined(build.name, tag) for tag in build.tags)
        network = policy_of(None, {}, self._service.networks.bound(caller))
        environments = self._service.environments
        record = await environments.create(caller, first, plan.spec.replace(labels=labels), network)
        log = await environments.follow(caller, first)
        async for batch in log.batches():
            for entry in batch:
                if isinstance(entry.event, Notice) and entry.kind == "log":
                    build.line(str(entry.event.fields["text"]), when=entry.time)
        found = (await environments.find(caller, first)).build
        if found is None or found.id != record.id:
            raise Gone(f"The template {first} was removed during its build.")
        if found.state != "done":
            step = FINALIZE if found.step is None else plan.origins[found.step]
            build.fail(step, f"{found.message} {found.hint}".strip())
            return
        for other in others:
            await environments.copy(caller, first, other)
        build.status = "ready"

    async def _status(self, request: ControlRequest) -> Reply:
        build = await self._known_or_kept(request)
        offset = int(request.number("logsOffset", 0, 0, 1 << 31))
        limit = int(request.number("limit", _PAGE, 0, _PAGE))
        return Reply(
            200,
            {
                "templateID": request.name,
                "buildID": build.id,
                "status": build.status,
                "logs": [],
                "logEntries": build.log[offset : offset + limit],
                **({"reason": build.reason} if build.reason else {}),
            },
        )

    def _find(self, request: ControlRequest) -> TemplateBuild:
        known = self._known.get(request.caller.owner)
        build = None if known is None else known.get(request.part)
        if build is None or build.name != request.name:
            raise Refusal(404, f"Build {request.part} of template '{request.name}' not found. Build it again.")
        return build

    async def _known_or_kept(self, request: ControlRequest) -> TemplateBuild:
        """The build; one that was ready when the server ended is known by its environment."""
        try:
            return self._find(request)
        except Refusal:
            for each in await self._service.environments.list(request.caller):
                name, tag = names.parted(each.name)
                found = each.environment
                if found is not None and name == request.name and found.labels.get("e2b.build") == request.part:
                    return TemplateBuild(request.part, request.caller.owner, name, [tag], {}, "ready")
            raise


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise BrokenOff
        more = message.get("more_body", False)
        yield message.get("body", b"")


def _text(problem: ClocheError) -> str:
    found = for_client(problem, "e2b")
    return f"{found.message} {found.hint}".strip()
