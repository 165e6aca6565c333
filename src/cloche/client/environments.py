"""The environments of a server: builds, lists and removes them, and reads what is known about them."""

from __future__ import annotations

from cloche.client import shapes
from cloche.client.feed import AsyncFeed
from cloche.errors import SandboxFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.client.server import AsyncServer
    from cloche.model.environments import EnvironmentSpec
    from cloche.model.network import Network

_PATH = "/v1/environments"


class AsyncServerEnvironments:
    """The environments that a key of a server can see.  They are returned as the server answers them."""

    def __init__(self, server: AsyncServer) -> None:
        self.server = server

    async def create(self, name: str, spec: EnvironmentSpec, network: Network | None = None) -> AsyncFeed:
        """Begin a build; return its events."""
        body = {**_fields(spec), "name": name, "network": shapes.network_fields(network)}
        await self.server.call("POST", _PATH, body)
        return self.events(name)

    async def all(self) -> list[dict[str, Any]]:
        """List the environments."""
        return await self.server.items(_PATH)

    async def find(self, name: str) -> dict[str, Any]:
        """Return one environment."""
        return _object(await self.server.call("GET", _at(name)))

    async def remove(self, name: str) -> None:
        """Remove an environment."""
        await self.server.call("DELETE", _at(name))

    async def sbom(self, name: str) -> dict[str, Any]:
        """Return the bill of materials of an environment."""
        return _object(await self.server.call("GET", f"{_at(name)}/sbom"))

    async def audit(self, name: str) -> dict[str, Any]:
        """Return what the server's catalogue knows about an environment."""
        return _object(await self.server.call("GET", f"{_at(name)}/audit"))

    def events(self, name: str) -> AsyncFeed:
        """Return the events of the newest build, from its beginning."""
        return AsyncFeed(self.server, again=f"{_at(name)}/events")


def _at(name: str) -> str:
    return f"{_PATH}/{shapes.quoted(name)}"


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise SandboxFailed("The server's answer makes no sense.", hint="Does the server have this version of Cloche?")
    return answer


def _fields(spec: EnvironmentSpec) -> dict[str, Any]:
    """The body of a request."""
    packages = shapes.packages_fields(spec.packages)
    fields: dict[str, Any] = {
        # A list of packages has a shorter limit than such a text.
        "requirements": "\n".join(packages.get("python", ())) or None,
        "npm": packages.get("javascript", []),
        "imports": list(spec.imports),
        "base": spec.base or None,
        "from_lock": spec.from_lock,
        "steps": [],
    }
    for step in spec.steps:
        if step.kind == "write":
            fields["files"] = {path: shapes.file(content) for path, content, _ in step.files}
            fields["programs"] = [path for path, _, mode in step.files if mode & 0o111]
        elif step.kind == "env":
            fields["env"] = dict(step.variables)
        elif step.kind == "script":
            fields["setup"] = step.text
        else:
            fields["steps"].append({step.kind: step.text})
    return fields
