# Generated from src/cloche/client/packages.py by scripts/blocking.py: edit that file instead.
"""The packages of a sandbox on a server."""

from __future__ import annotations

from cloche.client import shapes
from cloche.model.installs import FoundPackages, Install, InstalledPackage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Sequence

    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.model.packages import Requirement

    Names = list[str]  # within the class, `list` is a method


class ServerPackages:
    """Installs, lists, removes and finds the packages of one sandbox."""

    def __init__(self, sandbox: ServerSandbox) -> None:
        self._sandbox = sandbox

    def install(self, requirements: Sequence[Requirement]) -> Install:
        """Install packages, all that they need included."""
        body = {"packages": shapes.packages_fields(requirements)}
        return shapes.install(self._sandbox.call("POST", "/packages", body, timeout=None))

    def list(self) -> list[InstalledPackage]:
        """List the packages that programs find."""
        return [shapes.installed_package(each) for each in self._sandbox.items("/packages")]

    def uninstall(self, names: Sequence[str], language: str) -> Names:
        """Remove packages that were installed in the sandbox; return those that were there."""
        query = "&".join((f"language={language}", *(f"name={shapes.quoted(name)}" for name in names)))
        answer = self._sandbox.call("DELETE", f"/packages?{query}", timeout=None)
        return [str(name) for name in answer["removed"]]

    def search(self, text: str, language: str) -> FoundPackages:
        """Look for packages in the index that the server uses."""
        path = f"/v1/packages/search?language={language}&q={shapes.quoted(text)}"
        return shapes.found_packages(self._sandbox.server.call("GET", path, timeout=None))
