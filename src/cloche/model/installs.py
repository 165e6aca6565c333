"""Packages in a sandbox, and the outcome of installing some."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class InstalledPackage(Plain):
    """A package that programs of a sandbox can import."""

    name: str
    version: str
    language: str = "python"  # or "javascript"
    source: str = "environment"  # "environment": all sandboxes have it; "sandbox": it was installed in this one
    size: int | None = None  # bytes on disk, where they are known


class Install(Plain):
    """The outcome of installing packages."""

    packages: tuple[InstalledPackage, ...]  # those that are new in the sandbox
    satisfied: tuple[InstalledPackage, ...] = ()  # those that it had already
    warnings: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()  # packages that running sessions have loaded in another version


class FoundPackage(Plain):
    """A package of an index, as a search shows it."""

    name: str
    version: str
    summary: str = ""
    language: str = "python"
    installed: str | None = None  # the version that the environment has


class FoundPackages(list[FoundPackage]):
    """The packages that a search has found, the best first."""

    def __init__(self, found: Iterable[FoundPackage] = (), warnings: tuple[str, ...] = ()) -> None:
        super().__init__(found)
        self.warnings = warnings  # why some may be missing
