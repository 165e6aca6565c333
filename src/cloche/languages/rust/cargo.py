"""Reads Cargo manifests, to compile simple packages without Cargo."""

from __future__ import annotations

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from cloche.languages.language import Project

_DEPENDENCIES = ("dependencies", "build-dependencies")
# Sections that can be passed to the compiler directly, which takes a third of the time; anything else needs Cargo.
_MAX_MANIFEST = 64 << 10  # characters: reading names of many parts takes the square of their number
_SIMPLE = {"package", "bin", "lib", "dependencies", "dev-dependencies", "features", "profile", "badges"}
_SIMPLE_PACKAGE = (
    "name version edition authors description license license-file repository homepage readme keywords categories"
    " documentation rust-version publish default-run exclude include metadata"
)


class Manifest(Plain):
    """The parts of a Cargo.toml that matter here."""

    name: str
    version: str
    edition: str
    features: tuple[str, ...]  # the enabled ones
    library: str  # path of the library's root; "" if there is none
    library_name: str
    simple: bool  # can be compiled without Cargo
    binaries: Mapping[str, str]  # path of each program's root, and its name
    package: Mapping[str, Any]


def read(project: Project) -> Manifest | None:
    """Read the project's manifest; None if it does not describe a package (then Cargo reports what is wrong)."""
    from tomllib import TOMLDecodeError, loads

    text = project.texts.get("Cargo.toml", "")
    if len(text) > _MAX_MANIFEST:
        return None
    try:
        manifest = loads(text)
        return _understood(manifest, project)
    except (TOMLDecodeError, KeyError, TypeError, AttributeError, ValueError):
        return None


def _understood(manifest: dict[str, Any], project: Project) -> Manifest:
    package = manifest["package"]
    name = str(package["name"])
    library = str(manifest.get("lib", {}).get("path", "src/lib.rs"))
    simple = (
        set(manifest) <= _SIMPLE
        and set(package) <= set(_SIMPLE_PACKAGE.split())
        and set(manifest.get("lib", {})) <= {"name", "path"}
        and not set(manifest.get("profile", {})) - {"release", "bench"}
        and not any(manifest.get(kind) for kind in _DEPENDENCIES)
        and not project.has("build.rs")
        and all(isinstance(package.get(key, ""), str) for key in ("version", "edition"))
    )
    return Manifest(
        name,
        str(package.get("version", "0.0.0")),
        str(package.get("edition", "2015")),
        tuple(_features(manifest.get("features", {}))),
        library if project.has(library) else "",
        str(manifest.get("lib", {}).get("name", name)).replace("-", "_"),
        simple,
        {str(each["path"]): str(each["name"]) for each in manifest.get("bin", ()) if "path" in each},
        package,
    )


def _features(features: dict[str, list[str]]) -> list[str]:
    """List the default features, and those that they enable."""
    on: list[str] = []
    waiting = ["default"] if "default" in features else []
    while waiting:
        feature = waiting.pop()
        if feature not in on:
            on.append(feature)
            waiting += [name for name in features.get(feature, ()) if name in features]
    return on


def environment(manifest: Manifest, root: str, crate: str) -> dict[str, str]:
    """Return the variables by which Cargo describes a crate to itself."""
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
