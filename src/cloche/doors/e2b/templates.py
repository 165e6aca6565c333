"""E2B's templates: the server's own, which are names for its one environment, and those that clients have built."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from cloche.configuration import Configuration
from cloche.doors.e2b import template_names as names
from cloche.doors.e2b.answers import Refusal
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Reply
from cloche.doors.e2b.sandboxes import VERSION
from cloche.doors.e2b.times import moment
from cloche.doors.routing.access import Access
from cloche.errors import Gone
from cloche.model.environments import Environment
from cloche.policy.caller import Caller
from cloche.policy.limits import reduced
from cloche.service.service import Service

NAMES = names.OURS
_MIB = 1 << 20
# The limits of a sandbox, reduced to the operator's maximum; None stands for that maximum.
_MACHINE = {"timeout": None, "memory": 1 << 30, "cpu": 2.0, "disk": 1 << 30, "processes": 256, "output": None}
_NO_BUILD = "00000000-0000-0000-0000-000000000000"  # of environments that were not built through this door


def machine(configuration: Configuration, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the limits of a sandbox: those of its template, or else the usual ones."""
    chosen = {name: float(labels[f"e2b.{name}"]) for name in ("cpu", "memory") if labels and f"e2b.{name}" in labels}
    if "memory" in chosen:
        chosen["memory"] = int(chosen["memory"])
    return reduced({**_MACHINE, **chosen}, configuration)


def is_template(name: str) -> bool:
    """Return whether a name, with or without a tag, is that of a template of the server."""
    return name.partition(":")[0] in NAMES


class Templates:
    def __init__(self, service: Service) -> None:
        self._service = service

    def operations(self) -> ControlOperations:
        return {
            ("GET", "templates"): ControlOperation(self._list, Access("read")),
            ("GET", "templates", "aliases", ""): ControlOperation(self._by_alias, Access("read")),
            ("GET", "templates", "", "tags"): ControlOperation(self._tags, Access("read")),
            ("POST", "templates", "tags"): ControlOperation(self._assign, Access("run", "json")),
            ("DELETE", "templates", "tags"): ControlOperation(self._unassign, Access("run", "json")),
        }

    async def find(self, caller: Caller, template: str) -> tuple[str, Environment | None]:
        """Find a template: its name, and its environment unless it is the server's own."""
        if reason := names.UNAVAILABLE.get(template.partition(":")[0]):
            raise Refusal(404, reason)
        if is_template(template):
            return template.partition(":")[0], None
        return template, await environment_of(self._service, caller, template)

    async def remove(self, caller: Caller, template: str) -> bool:
        """Remove a template with all its tags, or one tag of it; return whether there was one."""
        found = [each.name for each in await self._own(caller) if template in (each.name, names.parted(each.name)[0])]
        for name in found:
            await self._service.environments.remove(caller, name)
        return bool(found)

    # --- lists

    async def _list(self, request: ControlRequest) -> Reply:
        since = moment(self._service.started)
        found = [self._json([name], since, since, _NO_BUILD, {}, public=True) for name in NAMES]
        by_name: dict[str, list[Environment]] = {}
        for each in await self._all(request.caller):
            by_name.setdefault(names.parted(each.name)[0], []).append(each)
        for name, environments in by_name.items():
            environments.sort(key=lambda each: each.created)
            tags = [name, *(f"{name}:{names.parted(each.name)[1]}" for each in environments)]
            newest = environments[-1]
            found.append(
                self._json(
                    list(dict.fromkeys(tags)),
                    moment(environments[0].created),
                    moment(newest.created),
                    newest.labels.get("e2b.build", _NO_BUILD),
                    newest.labels,
                    public=newest.shared,
                    builds=len({each.labels.get("e2b.build") for each in environments}),
                )
            )
        return Reply(200, found)

    def _json(
        self,
        shown: list[str],
        created: str,
        updated: str,
        build: str,
        labels: Mapping[str, str],
        *,
        public: bool,
        builds: int = 1,
    ) -> dict[str, Any]:
        limits = machine(self._service.configuration, labels)
        return {
            "templateID": shown[0],
            "buildID": build,
            "buildStatus": "ready",
            "buildCount": builds,
            "aliases": shown[:1],
            "names": shown,
            "public": public,
            "cpuCount": ceil(limits["cpu"]),
            "memoryMB": int(limits["memory"]) // _MIB,
            "diskSizeMB": int(limits["disk"]) // _MIB,
            "envdVersion": VERSION,
            "createdAt": created,
            "updatedAt": updated,
            "createdBy": None,
            "lastSpawnedAt": None,
            "spawnCount": 0,
        }

    async def _by_alias(self, request: ControlRequest) -> Reply:
        if is_template(request.name):
            return Reply(200, {"templateID": request.name.partition(":")[0], "public": True})
        name, tag = names.split(request.name)
        for each in await self._all(request.caller):
            if names.parted(each.name) == (name, tag) or (
                ":" not in request.name and names.parted(each.name)[0] == name
            ):
                return Reply(200, {"templateID": name, "public": each.shared})
        raise Refusal(404, f"Template '{request.name}' not found.")

    # --- tags

    async def _tags(self, request: ControlRequest) -> Reply:
        name, _ = names.split(request.name)
        found = [each for each in await self._all(request.caller) if names.parted(each.name)[0] == name]
        if not found:
            raise Refusal(404, f"Template '{name}' not found.")
        return Reply(200, [_tag_json(each) for each in sorted(found, key=lambda each: each.created, reverse=True)])

    async def _assign(self, request: ControlRequest) -> Reply:
        body = await request.body()
        name, tag = names.split(body.get("target"))
        names.check_is_free(name)
        tags = names.listed_tags(body.get("tags"))
        source = await environment_of(self._service, request.caller, names.joined(name, tag))
        for other in tags:
            if other != tag:
                await self._service.environments.copy(request.caller, source.name, names.joined(name, other))
        return Reply(201, {"buildID": source.labels.get("e2b.build", _NO_BUILD), "tags": tags})

    async def _unassign(self, request: ControlRequest) -> Reply:
        body = await request.body()
        name, _ = names.split(body.get("name"))
        names.check_is_free(name)
        tags = names.listed_tags(body.get("tags"))
        for tag in tags:
            await environment_of(self._service, request.caller, names.joined(name, tag))  # before any is removed
        for tag in tags:
            await self._service.environments.remove(request.caller, names.joined(name, tag))
        return Reply()

    async def _all(self, caller: Caller) -> list[Environment]:
        """The environments that the caller can use."""
        found = await self._service.environments.list(caller)
        return [each.environment for each in found if each.environment is not None]

    async def _own(self, caller: Caller) -> list[Environment]:
        return [each for each in await self._all(caller) if not each.shared]


async def environment_of(service: Service, caller: Caller, template: str) -> Environment:
    """The environment of a template; another owner's is not found, like one that does not exist."""
    name, tag = names.split(template)
    try:
        found = await service.environments.find(caller, names.joined(name, tag))
    except Gone:
        found = None
    if found is None or found.environment is None:
        raise Refusal(404, f"Template '{template}' not found; Template.build makes it, and there is always 'base'.")
    return found.environment


def _tag_json(each: Environment) -> dict[str, Any]:
    return {
        "tag": names.parted(each.name)[1],
        "buildID": each.labels.get("e2b.build", _NO_BUILD),
        "createdAt": moment(each.created),
    }
