"""The dependencies of projects that Cargo, Go and Maven build: from manifests to a layer for the tools."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib import import_module
from time import time

from cloche.errors import Refused, Unavailable
from cloche.model.packages import LockedPackage, Requirement
from cloche.model.plain import Plain
from cloche.packages.resolutions import KeptAnswers, lock_data, lock_of
from cloche.packages.resolved import Resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.model.manifests import Manifests
    from cloche.packages.broker import Broker
    from cloche.packages.layers import Layer
    from cloche.packages.policy import PackagePolicy

ECOSYSTEMS = {
    "cargo": "cloche.packages.cargo_packages",
    "go": "cloche.packages.go_packages",
    "maven": "cloche.packages.maven_packages",
}
_MOST_TEXT = 600 << 10  # characters of an answer; it must fit into one frame
_MOST_OUTPUT = 20_000  # characters
_DAY_S = 86_400.0
_FOREVER_S = 10 * 365 * _DAY_S


class Prepared(Plain):
    """The dependencies of a project, ready for its tool."""

    layer: Layer | None  # None: the project needs nothing from a registry
    files: dict[str, str]  # manifests and lock files that are new or different
    output: str
    warnings: tuple[str, ...]


def source_of(ecosystem: str) -> Any:
    """The module that knows the registry of an ecosystem."""
    return import_module(ECOSYSTEMS[ecosystem])


def prepare(broker: Broker, manifests: Manifests, policy: PackagePolicy, report: Callable[[str], None]) -> Prepared:
    """Return a layer with all packages that these manifests lead to, each checked against its lock file."""
    resolved = _resolved(broker, manifests, report)
    lock = resolved.lock
    output = resolved.output[-_MOST_OUTPUT:]
    changed = {path: text for path, text in resolved.files.items() if manifests.files.get(path) != text}
    if sum(map(len, changed.values())) > _MOST_TEXT:
        raise Refused(f"The lock file of the project would have more than {_MOST_TEXT >> 10} KiB.")
    if not lock.packages:
        return Prepared(None, changed, output, ())
    # A lock file pins each package and its hash, so the rules for pinned packages hold.
    asked = [
        Requirement(each.ecosystem, each.name, f"{each.name}=={each.version}", True, (each.file.hash,))
        for each in lock.packages
        if _is_whole(each)
    ]
    warnings = policy.check_request(asked)
    whole = lock.replace(packages=tuple(filter(_is_whole, lock.packages)))
    warnings += [each for each in policy.check_lock(asked, whole, time(), broker.catalogue) if "how large" not in each]
    return Prepared(broker.layer(lock, policy, report), changed, output, tuple(dict.fromkeys(warnings)))


def _is_whole(package: LockedPackage) -> bool:
    """Tell a package from a file that only belongs to it: a description, or a plugin that builds the project."""
    return "/" not in package.version


def _resolved(broker: Broker, manifests: Manifests, report: Callable[[str], None]) -> Resolved:
    source = source_of(manifests.ecosystem)
    kept = KeptAnswers(f"{broker.folder}/builds")
    key = _key(manifests)
    lasts_s = _FOREVER_S if _is_locked(manifests) else _DAY_S
    if manifests.command:
        lasts_s = 0.0  # `cargo update` is asked for because something may be new
    known = kept.find(key, lasts_s)
    if known is not None:
        return _read(known)
    with broker.one_at_a_time(f"resolve-{key}"):
        known = kept.find(key, lasts_s)
        if known is not None:
            return _read(known)
        report("Resolving dependencies")
        try:
            found: Resolved = source.resolve(manifests)
        except Unavailable:
            known = kept.find(key, 0.0 if manifests.command else _FOREVER_S)  # old, and better than nothing
            if known is not None:
                return _read(known)
            as_it_is: Resolved | None = source.locked(manifests)
            if as_it_is is None or broker.layers.find(as_it_is.lock.digest) is None:
                raise
            return as_it_is
        if not manifests.command:
            kept.keep(key, _data(found))
        # The project will come back with these files.
        kept.keep(_key(manifests.replace(files=found.files, command=(), imports=())), _data(found.replace(output="")))
        return found


def _is_locked(manifests: Manifests) -> bool:
    return any(path.endswith((".lock", ".sum")) for path in manifests.files)


def _key(manifests: Manifests) -> str:
    parts = [
        manifests.ecosystem,
        manifests.folder,
        manifests.command,
        manifests.imports,
        sorted(manifests.files.items()),
    ]
    return sha256(json.dumps(parts).encode()).hexdigest()


def _data(resolved: Resolved) -> dict[str, Any]:
    return {"lock": lock_data(resolved.lock), "files": dict(resolved.files), "output": resolved.output}


def _read(data: dict[str, Any]) -> Resolved:
    return Resolved(lock_of(data["lock"]), data["files"], data["output"])
