"""E2B's templates.  All their names stand for the one environment of this server."""

from __future__ import annotations

from math import ceil
from typing import Any

from cloche.configuration import Configuration
from cloche.doors.e2b.answers import Refusal
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Reply
from cloche.doors.e2b.sandboxes import VERSION
from cloche.doors.e2b.times import moment
from cloche.doors.routing.access import Access
from cloche.policy.limits import reduced
from cloche.service.service import Service

NAMES = ("base", "code-interpreter-v1", "code-interpreter-beta", "code-interpreter")
_MIB = 1 << 20
# The limits of a sandbox, reduced to the operator's maximum; None stands for that maximum.
_MACHINE = {"timeout": None, "memory": 1 << 30, "cpu": 2.0, "disk": 1 << 30, "processes": 256, "output": None}
_BUILD = "00000000-0000-0000-0000-000000000000"  # templates come with the server, and are never built


def machine(configuration: Configuration) -> dict[str, float]:
    """Return the limits of a sandbox, which are the same for all templates."""
    return reduced(_MACHINE, configuration)


def is_template(name: str) -> bool:
    """Return whether a name, with or without a tag, is that of a template."""
    return name.partition(":")[0] in NAMES


class Templates:
    def __init__(self, service: Service) -> None:
        self._service = service

    def operations(self) -> ControlOperations:
        return {
            ("GET", "templates"): ControlOperation(self._list, Access("read")),
            ("GET", "templates", "aliases", ""): ControlOperation(self._by_alias, Access("read")),
        }

    def find(self, name: str) -> str:
        """Find a template by its name, ignoring the tag."""
        known = name.partition(":")[0]
        if known == "mcp-gateway":
            raise Refusal(404, "There is no MCP gateway in sandboxes of this server; it speaks MCP itself, at /mcp.")
        if known not in NAMES:
            raise Refusal(404, f"Template '{name}' not found; this server has {', '.join(NAMES)}.")
        return known

    async def _list(self, _: ControlRequest) -> Reply:
        return Reply(200, [self._json(name) for name in NAMES])

    def _json(self, name: str) -> dict[str, Any]:
        limits, since = machine(self._service.configuration), moment(self._service.started)
        return {
            "templateID": name,
            "buildID": _BUILD,
            "buildStatus": "ready",
            "buildCount": 1,
            "aliases": [name],
            "names": [name],
            "public": True,
            "cpuCount": ceil(limits["cpu"]),
            "memoryMB": int(limits["memory"]) // _MIB,
            "diskSizeMB": int(limits["disk"]) // _MIB,
            "envdVersion": VERSION,
            "createdAt": since,
            "updatedAt": since,
            "createdBy": None,
            "lastSpawnedAt": None,
            "spawnCount": 0,
        }

    async def _by_alias(self, request: ControlRequest) -> Reply:
        return Reply(200, {"templateID": self.find(request.name), "public": True})
