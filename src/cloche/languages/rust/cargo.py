"""Cargo's projects: what a manifest asks of the compiler, where that can be said without Cargo."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cloche.languages.language import Project

_DEPENDENCIES = ("dependencies", "build-dependencies")
# What can be said to the compiler itself, in a third of the time; whoever says more is served by Cargo.
_SIMPLE = {"package", "bin", "lib", "dependencies", "dev-dependencies", "features", "profile", "badges"}
_SIMPLE_PACKAGE = (
    "name version edition authors description license license-file repository homepage readme keywords categories"
    " documentation rust-version publish default-run exclude include metadata"
)


class Manifest(Plain):
    """What a Cargo.toml says, as far as it matters here."""

    name: str
    version: str
    edition: str
    features: tuple[str, ...]  # that are on
    library: str  # where the library begins; "" when there is none
    library_name: str
    foreign: tuple[str, ...]  # crates that are not part of the project
    simple: bool  # no need for Cargo
    binaries: Mapping[str, str]  # where programs begin, and their names
    package: Mapping[str, Any]


def read(project: Project) -> Manifest | None:
    """The project's manifest; None when it has none that says what to build (Cargo tells what it thinks of it)."""
    from tomllib import TOMLDecodeError, loads

    try:
        told = loads(project.texts.get("Cargo.toml", ""))
        return _understood(told, project)
    except (TOMLDecodeError, KeyError, TypeError, AttributeError, ValueError):
        return None


def _understood(told: dict[str, Any], project: Project) -> Manifest:
    package = told["package"]
    name = str(package["name"])
    library = str(told.get("lib", {}).get("path", "src/lib.rs"))
    simple = (
        set(told) <= _SIMPLE
        and set(package) <= set(_SIMPLE_PACKAGE.split())
        and set(told.get("lib", {})) <= {"name", "path"}
        and not set(told.get("profile", {})) - {"release", "bench"}
        and not any(told.get(kind) for kind in _DEPENDENCIES)
        and not project.has("build.rs")
        and all(isinstance(package.get(key, ""), str) for key in ("version", "edition"))
    )
    return Manifest(
        name,
        str(package.get("version", "0.0.0")),
        str(package.get("edition", "2015")),
        tuple(_features(told.get("features", {}))),
        library if project.has(library) else "",
        str(told.get("lib", {}).get("name", name)).replace("-", "_"),
        tuple(_foreign(told)),
        simple,
        {str(each["path"]): str(each["name"]) for each in told.get("bin", ()) if "path" in each},
        package,
    )


def _features(told: dict[str, list[str]]) -> list[str]:
    """The default ones, with what they bring."""
    on: list[str] = []
    waiting = ["default"] if "default" in told else []
    while waiting:
        feature = waiting.pop()
        if feature not in on:
            on.append(feature)
            waiting += [name for name in told.get(feature, ()) if name in told]
    return on


def _foreign(told: dict[str, Any]) -> list[str]:
    """Crates that would have to be fetched."""
    places = [told, *told.get("target", {}).values()]
    wanted = {name: given for place in places for kind in _DEPENDENCIES for name, given in place.get(kind, {}).items()}
    return sorted(
        name
        for name, given in wanted.items()
        if not (isinstance(given, dict) and ("path" in given or given.get("optional")))
    )


def environment(manifest: Manifest, root: str, crate: str) -> dict[str, str]:
    """What Cargo lets a crate know of itself."""
    number = manifest.version.partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = (*number, "0", "0", "0")[:3]
    package = manifest.package
    return {
        "CARGO_MANIFEST_DIR": root,
        "CARGO_CRATE_NAME": crate.replace("-", "_"),
        "CARGO_BIN_NAME": crate,
        "CARGO_PKG_NAME": manifest.name,
        "CARGO_PKG_VERSION": manifest.version,
        "CARGO_PKG_VERSION_MAJOR": major,
        "CARGO_PKG_VERSION_MINOR": minor,
        "CARGO_PKG_VERSION_PATCH": patch,
        "CARGO_PKG_VERSION_PRE": manifest.version.partition("+")[0].partition("-")[2],
        "CARGO_PKG_AUTHORS": ":".join(map(str, package.get("authors", ()))),
        "CARGO_PKG_DESCRIPTION": str(package.get("description", "")),
        "CARGO_PKG_HOMEPAGE": str(package.get("homepage", "")),
        "CARGO_PKG_REPOSITORY": str(package.get("repository", "")),
        "CARGO_PKG_LICENSE": str(package.get("license", "")),
    }
