"""E2B's templates.  All their names stand for the one environment of this server."""

from __future__ import annotations

from cloche.doors.e2b.answers import Refusal
from cloche.doors.e2b.requests import ControlOperation, ControlOperations, ControlRequest, Reply
from cloche.doors.routing.access import Access

NAMES = ("base", "code-interpreter-v1", "code-interpreter-beta", "code-interpreter")


class Templates:
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
        return Reply(200, [{"templateID": name, "aliases": [name], "names": [name], "public": True} for name in NAMES])

    async def _by_alias(self, request: ControlRequest) -> Reply:
        return Reply(200, {"templateID": self.find(request.name), "public": True})
