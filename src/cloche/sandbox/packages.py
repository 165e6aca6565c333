"""The packages of a sandbox: `box.packages`."""

from __future__ import annotations

from _collections_abc import Iterable, Sequence

from cloche.errors import InvalidRun
from cloche.model.installs import FoundPackages, Install, InstalledPackage
from cloche.sandbox.package_checks import checked_packages, ecosystem_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.sandbox.backend import AsyncPackagesBackend


class AsyncPackages:
    """Installs, lists and removes the packages that programs in a sandbox can import."""

    def __init__(self, backend: AsyncPackagesBackend) -> None:
        self._backend = backend

    async def install(self, *packages: str | Iterable[str], language: str = "python") -> Install:
        """Install packages: "polars", "httpx>=0.27", or with `language="javascript"` "lodash@4"."""
        wanted = checked_packages(_flat(packages), language)
        if not wanted:
            raise InvalidRun("No package is named.", hint='Write packages=["polars"].')
        return await self._backend.install(wanted)

    async def list(self) -> list[InstalledPackage]:
        """List all packages, those of the environment as well."""
        return await self._backend.list()

    async def uninstall(self, *packages: str, language: str = "python") -> Sequence[str]:
        """Remove packages that were installed in this sandbox; return those that were there."""
        return await self._backend.uninstall(list(packages), ecosystem_of(language))

    async def search(self, text: str, *, language: str = "python") -> FoundPackages:
        """Look for packages by name and by words of their descriptions."""
        return await self._backend.search(text, ecosystem_of(language))


def _flat(packages: Iterable[str | Iterable[str]]) -> list[str]:
    return [text for each in packages for text in ([each] if isinstance(each, str) else each)]
