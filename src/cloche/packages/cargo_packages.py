"""Crates: Cargo chooses them from manifests alone, and each is compared with Cargo.lock before it is unpacked."""

from __future__ import annotations

import json
import os
import re
import tomllib

from cloche.errors import InvalidRun, Refused, Unavailable
from cloche.model.files import Mount
from cloche.model.manifests import CARGO
from cloche.model.packages import Lock, LockedFile, LockedPackage
from cloche.packages import downloads, indexes, workshop
from cloche.packages.resolved import Resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from cloche.model.manifests import Manifests
    from cloche.packages.policy import PackagePolicy

_RESOLVE_S, _UNPACK_S = 120.0, 300.0
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VERSION = re.compile(r"\d+\.\d+\.\d+[A-Za-z0-9.+-]{0,100}")
_HASH = re.compile("[0-9a-f]{64}")
_NO_REGISTRY = (
    *("Could not resolve", "failed to download", "spurious network error", "Connection refused", "Timeout was reached"),
    *(
        "Couldn't connect",
        "failed to get successful HTTP response",
        "SSL connect error",
        "download of config.json failed",
    ),
)


def resolve(manifests: Manifests) -> Resolved:
    """Have Cargo complete the lock file, or carry out a command such as `add`; the project's code is not there."""
    found = indexes.find()
    if not found.cargo:
        raise Unavailable(
            "This host has no registry of crates.", hint="Install Cargo on the host, for the user that Cloche runs as."
        )
    order = {
        "files": dict(manifests.files),
        "folder": manifests.folder,
        "command": list(manifests.command),
        "config": _configuration(found.cargo[0]) if found.cargo_is_replaced else "",
    }
    result = workshop.run(
        workshop.program("read_cargo"),
        stdin=json.dumps(order),
        env={"CARGO_HOME": "/tmp/cargo", "CARGO_NET_RETRY": "2", "CARGO_TERM_COLOR": "never"},
        network=found.cargo_hosts,
        timeout_s=_RESOLVE_S,
    )
    answer = workshop.answer(result)
    if "failed" in answer:
        raise _unresolved(str(answer["failed"]))
    files = {str(path): str(text) for path, text in answer["files"].items()}
    lock = next((text for path, text in files.items() if path.rpartition("/")[2] == "Cargo.lock"), "")
    return Resolved(_lock(lock, found.cargo[-1]), files, str(answer.get("output", "")))


def locked(manifests: Manifests) -> Resolved | None:
    """Read the lock file as it is, for when the registry cannot be reached; Cargo says if it does not fit."""
    texts = [text for path, text in manifests.files.items() if path.rpartition("/")[2] == "Cargo.lock"]
    found = indexes.find().cargo
    if len(texts) != 1 or manifests.command:
        return None
    return Resolved(_lock(texts[0], found[-1] if found else ""), dict(manifests.files))


def _configuration(index: str) -> str:
    address = json.dumps(f"sparse+{index}/")  # Cargo insists on the slash
    return f'[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = {address}\n'


def _unresolved(text: str) -> Exception:
    reason = " ".join(text.removeprefix("error: ").split())[:1500]
    if any(sign.lower() in reason.lower() for sign in _NO_REGISTRY):
        return Unavailable(
            f"The registry of crates does not answer as it should: {reason}",
            "Try again in a moment. If it stays so, check the settings of Cargo on the host that runs Cloche.",
        )
    return InvalidRun(f"Cargo cannot resolve the dependencies: {reason}", "Correct the Cargo.toml, and try again.")


def _lock(text: str, packages_url: str) -> Lock:
    """Read a Cargo.lock, which somebody inside may have written."""
    try:
        listed = tomllib.loads(text).get("package", [])
        found = [_package(each, packages_url) for each in listed if each.get("source") is not None]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise InvalidRun(
            f"The Cargo.lock cannot be read: {problem}.", hint="Remove it to have it made again."
        ) from None
    return Lock(ecosystem=CARGO, packages=tuple(sorted(found, key=lambda each: (each.name, each.version))))


def _package(entry: Mapping[str, Any], packages_url: str) -> LockedPackage:
    name, version, source = str(entry["name"]), str(entry["version"]), str(entry["source"])
    if not source.startswith(("registry+", "sparse+")):
        raise Refused(
            f"The crate {name[:100]} {version[:100]} comes from a repository ({source[:200]}), not a registry.",
            hint="Use a released version, or put the crate into the project's files and name it by its path.",
        )
    checksum = str(entry.get("checksum", ""))
    if not _NAME.fullmatch(name) or not _VERSION.fullmatch(version) or not _HASH.fullmatch(checksum):
        raise InvalidRun(
            f"The Cargo.lock has no usable name, version or checksum for {name[:100]!r}.",
            hint="Remove the file to have it made again.",
        )
    file = LockedFile(f"{name}-{version}.crate", _address(packages_url, name, version, checksum), f"sha256:{checksum}")
    return LockedPackage(ecosystem=CARGO, name=name, version=version, file=file)


def _address(template: str, name: str, version: str, checksum: str) -> str:
    """Where a crate is, as the index's own settings describe it."""
    if "{" not in template:
        return f"{template}/{name}/{version}/download"
    lower = name.lower()
    prefix, low = _prefix(name), _prefix(lower)
    values = {"crate": name, "version": version, "prefix": prefix, "lowerprefix": low, "sha256-checksum": checksum}
    for key, value in values.items():
        template = template.replace(f"{{{key}}}", value)
    return template


def _prefix(name: str) -> str:
    return {1: "1", 2: "2", 3: f"3/{name[0]}"}.get(len(name), f"{name[:2]}/{name[2:4]}")


def build(lock: Lock, policy: PackagePolicy, cache: str, staging: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Download the crates of a lock, and unpack them into `staging`/tree/vendor; returns the layer's details."""
    files = downloads.fetch(lock, cache, policy.size, {}, indexes.find().cargo_hosts, report)
    os.mkdir(f"{staging}/crates", 0o755)
    os.mkdir(f"{staging}/tree")
    os.mkdir(f"{staging}/tree/vendor")
    for folder in ("tree", "tree/vendor"):
        os.chmod(f"{staging}/{folder}", 0o777)  # the sandbox has another user; nobody else reaches this folder
    listed = []
    for number, each in enumerate(lock.packages):
        os.link(files[each.file.hash], f"{staging}/crates/{number}")
        digest = each.file.hash.removeprefix("sha256:")
        listed.append({"file": str(number), "name": each.name, "version": each.version, "hash": digest})
    report("Unpacking crates")
    result = workshop.run(
        files={"unpack_crates.py": workshop.program("unpack_crates"), "crates.json": json.dumps(listed)},
        entry="unpack_crates.py",
        args=("/sandbox/crates", "/sandbox/tree/vendor", "/sandbox/crates.json"),
        mounts=(Mount(f"{staging}/crates", "/sandbox/crates"), Mount(f"{staging}/tree", "/sandbox/tree", True)),
        timeout_s=_UNPACK_S,
    )
    problem = workshop.answer(result).get("problem")
    if problem is not None:
        crate = str(problem.get("crate"))
        if crate.isdecimal() and int(crate) < len(lock.packages):
            crate = lock.packages[int(crate)].file.name
        raise Refused(
            f"{crate[:200]} is not unpacked: {str(problem.get('message'))[:500]}.",
            hint="The file breaks a rule for crates, and may be malicious. Choose another version.",
        )
    return {"packages": []}
