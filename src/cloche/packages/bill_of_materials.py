"""The bill of materials of an environment, in CycloneDX's JSON format, made from the locks that were kept."""

from __future__ import annotations

from base64 import b64decode
from datetime import UTC, datetime
from urllib.parse import quote
from uuid import UUID

from cloche import __version__
from cloche.packages.resolutions import lock_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from cloche.model.environments import Environment
    from cloche.model.packages import Lock, LockedPackage

_ALGORITHMS = {"sha1": "SHA-1", "sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}
_LONGEST = 200  # characters of a licence, which the package itself has written


def sbom(environment: Environment) -> dict[str, Any]:
    """Describe the packages that an environment adds; the same environment has the same bill."""
    components: dict[str, dict[str, Any]] = {}
    for name in environment.layers:
        details = environment.lock.get(name, {})
        if "lock" in details:
            licences = {each["name"]: each.get("licence", "") for each in details.get("packages", ())}
            for package in lock_of(details["lock"]).packages:
                component = _component(package, licences)
                components[component["purl"]] = component
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{UUID(environment.digest[:32], version=4)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(environment.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "cloche", "version": __version__}]},
            "component": {"type": "container", "bom-ref": environment.name, "name": environment.name},
        },
        "components": [components[purl] for purl in sorted(components)],
    }


def locks(environment: Environment) -> Sequence[Lock]:
    """The locks of an environment's packages."""
    kept = [environment.lock.get(name, {}).get("lock") for name in environment.layers]
    return [lock_of(lock) for lock in kept if lock is not None]


def _component(package: LockedPackage, licences: Mapping[str, str]) -> dict[str, Any]:
    purl = _purl(package)
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": algorithm, "content": content} for algorithm, content in _hashes(package.file.hash)],
    }
    licence = (licences.get(package.name) or package.licence)[:_LONGEST]
    if licence:
        found["licenses"] = [{"license": {"name": licence}}]
    return found


def _purl(package: LockedPackage) -> str:
    if package.ecosystem == "python":
        return f"pkg:pypi/{quote(package.name)}@{quote(package.version)}"
    return f"pkg:npm/{quote(package.name, safe='/')}@{quote(package.version)}"


def _hashes(text: str) -> list[tuple[str, str]]:
    """A hash as Python writes it, in hexadecimal after a colon, or as npm does, in base64 after a hyphen."""
    if ":" in text:
        name, _, content = text.partition(":")
        return [(_ALGORITHMS[name], content)] if name in _ALGORITHMS else []
    name, _, encoded = text.partition("-")
    try:
        return [(_ALGORITHMS[name], b64decode(encoded, validate=True).hex())] if name in _ALGORITHMS else []
    except ValueError:
        return []
