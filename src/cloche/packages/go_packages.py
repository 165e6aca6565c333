"""Go modules: Go chooses them from manifests alone, and their checksums must be those of go.sum.

Modules are fetched in a sandbox that reaches the proxy of modules, and unpacked in another that reaches nothing.  The
second computes the checksums again, so a proxy that deceives the first gains nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from base64 import b64encode

from cloche.errors import InvalidRun, Refused, Unavailable
from cloche.model.files import Mount
from cloche.model.manifests import GO
from cloche.model.packages import Lock, LockedFile, LockedPackage
from cloche.packages import indexes, trees, workshop
from cloche.packages.resolved import Resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from cloche.model.manifests import Manifests
    from cloche.packages.policy import PackagePolicy

_RESOLVE_S, _FETCH_S, _UNPACK_S = 180.0, 600.0, 300.0
_MOST_DESCRIPTION = 1 << 20
_MIB = 1 << 20
_PATH = re.compile(r"[A-Za-z0-9][\w.~/-]{0,250}", re.ASCII)
_VERSION = re.compile(r"v\d[\w.+-]{0,150}(?:/go\.mod)?", re.ASCII)
_SUM = re.compile(r"h1:[A-Za-z0-9+/]{43}=")
_NO_PROXY = (
    *("connection refused", "i/o timeout", "no such host", "502", "503", "504", "TLS handshake", "EOF"),
    *("network is unreachable", "connection reset", "no route to host", "server misbehaving"),
)


def resolve(manifests: Manifests) -> Resolved:
    """Have Go complete go.sum, or carry out a command such as `go get`; the project's code is not there."""
    result = workshop.run(
        workshop.program("read_go"),
        stdin=json.dumps(
            {
                "files": dict(manifests.files),
                "folder": manifests.folder,
                "command": list(manifests.command),
                "imports": list(manifests.imports),
            }
        ),
        env={**_online(), "GOMODCACHE": "/tmp/mod"},
        network=indexes.find().go_hosts,
        timeout_s=_RESOLVE_S,
    )
    answer = workshop.answer(result)
    if "failed" in answer:
        raise _problem(str(answer["failed"]))
    files = {str(path): str(text) for path, text in answer["files"].items()}
    known = _sums(manifests.files)
    for each in answer["modules"]:
        for version, found in ((each["version"], each["sum"]), (f"{each['version']}/go.mod", each["mod"])):
            if known.setdefault((each["path"], version), found) != found:
                raise _other_contents(f"{each['path']}@{version}")
    whole = [(each["path"], each["version"]) for each in answer["modules"]]
    return Resolved(_lock(whole, {**_sums(files), **known}), files, str(answer.get("output", "")))


def locked(_: Manifests) -> Resolved | None:
    """Without the proxy, nobody can say which of the modules in go.sum a build needs."""
    return None


def _online() -> dict[str, str]:
    """The variables for Go in a sandbox that reaches the proxy."""
    found = indexes.find()
    if not found.go:
        raise Unavailable("This host has no proxy for Go modules.", hint="Install Go on the host, and set GOPROXY.")
    return {**_offline(found.go), "GOSUMDB": found.go_checksums or "off"}


def _offline(proxy: str) -> dict[str, str]:
    # Without the stand-in of `go`, which would ask us again.
    common = {"GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GOENV": "off", "npm_config_registry": ""}
    return {**common, "GOPROXY": proxy, "GOSUMDB": "off", "GOVCS": "*:off", "GOPRIVATE": "", "GONOSUMDB": ""}


def _problem(text: str) -> Exception:
    reason = " ".join(text.split())[:1500]
    if "checksum mismatch" in reason or "SECURITY ERROR" in reason:
        return Unavailable(
            f"A Go module does not have the contents that go.sum or the database of checksums promises: {reason}",
            "Nothing was kept. If the go.sum is right, the proxy of modules is broken or was tampered with.",
        )
    if any(sign in reason for sign in _NO_PROXY):
        return Unavailable(
            f"The proxy of Go modules does not answer as it should: {reason}",
            "Try again in a moment. If it stays so, check GOPROXY on the host that runs Cloche.",
        )
    return InvalidRun(f"Go cannot resolve the modules: {reason}", "Correct the go.mod, and try again.")


def _other_contents(name: str) -> Unavailable:
    return Unavailable(
        f"The Go module {name[:300]} has other contents than its checksum promises.",
        hint="Nothing was kept. If the go.sum is right, the proxy of modules is broken or was tampered with.",
    )


def _sums(files: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """The checksums in all go.sum files, by module and version."""
    lines = (line.split() for path, text in files.items() if path.endswith(".sum") for line in text.splitlines())
    return {(words[0], words[1]): words[2] for words in lines if len(words) == 3}


def _lock(whole: Iterable[tuple[str, str]], sums: Mapping[tuple[str, str], str]) -> Lock:
    """The modules that a build needs, and the descriptions of all that decide about versions."""
    wanted = {*whole, *((path, version) for path, version in sums if version.endswith("/go.mod"))}
    found = []
    for path, version in sorted(wanted):
        checksum = sums[path, version]
        if not _PATH.fullmatch(path) or ".." in path or not _VERSION.fullmatch(version) or not _SUM.fullmatch(checksum):
            raise InvalidRun(f"The go.sum has an odd line for {path[:200]} {version[:100]}.", hint="Remove this line.")
        found.append(LockedPackage(GO, path, version, LockedFile(f"{path}@{version}", "", checksum)))
    return Lock(ecosystem=GO, packages=tuple(found))


def build(lock: Lock, policy: PackagePolicy, cache: str, staging: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Download the modules of a lock, and unpack them into `staging`/tree/mod; returns the layer's details."""
    names = [f"{each.name}@{each.version}" for each in lock.packages]
    whole = [name for name in names if not name.endswith("/go.mod")]
    described = [name.removesuffix("/go.mod") for name in names if name.endswith("/go.mod")]
    order = json.dumps({"modules": whole, "descriptions": [each for each in described if each not in set(whole)]})
    report("Downloading Go modules")
    os.makedirs(cache, mode=0o700, exist_ok=True)
    incoming = tempfile.mkdtemp(prefix="incoming-", dir=cache)
    try:
        for folder in (f"{incoming}/mod", f"{staging}/tree", f"{staging}/tree/mod"):
            os.mkdir(folder)
            os.chmod(folder, 0o777)  # the sandbox has another user; nobody else reaches this folder
        into = Mount(f"{incoming}/mod", "/sandbox/incoming", writable=True)
        _run(order, {**_online(), "GOMODCACHE": "/sandbox/incoming"}, [into], indexes.find().go_hosts, _FETCH_S)
        _check_size(f"{incoming}/mod/cache/download", policy.size)
        report("Unpacking Go modules")
        environment = {**_offline("file:///sandbox/incoming/cache/download"), "GOMODCACHE": "/sandbox/tree/mod"}
        mounts = [Mount(f"{incoming}/mod", "/sandbox/incoming"), Mount(f"{staging}/tree", "/sandbox/tree", True)]
        found = _run(order, environment, mounts, (), _UNPACK_S)
    finally:
        trees.remove(incoming)
    sums = {(each["path"], each["version"]): each["sum"] for each in found["modules"]}
    for each in lock.packages:
        path, _, is_description = each.version.partition("/")
        if is_description:
            actual = _description_sum(f"{staging}/tree/mod/cache/download", each.name, path)
        else:
            actual = sums.get((each.name, each.version), "")
        if actual != each.file.hash:
            raise _other_contents(each.file.name)
    shutil.rmtree(f"{staging}/tree/mod/cache/download/sumdb", ignore_errors=True)
    return {"packages": []}


def _run(
    order: str, env: dict[str, str], mounts: list[Mount], network: Iterable[tuple[str, int]], timeout_s: float
) -> dict[str, Any]:
    result = workshop.run(
        workshop.program("read_go"), stdin=order, env=env, mounts=mounts, network=list(network), timeout_s=timeout_s
    )
    answer = workshop.answer(result)
    if "failed" in answer:
        raise _problem(str(answer["failed"]))
    return answer


def _check_size(folder: str, most_bytes: int) -> None:
    """Refuse more than the policy allows; the proxy does not say sizes before."""
    size = 0
    for place, _, names in os.walk(folder):
        size += sum(os.lstat(f"{place}/{name}").st_size for name in names if name.endswith((".zip", ".mod", ".info")))
    if size > most_bytes:
        raise Refused(
            f"The Go modules are {size / _MIB:,.0f} MB to download, and {most_bytes / _MIB:,.0f} MB are allowed "
            "(packages.size).",
            hint="Use fewer or smaller modules, or have the operator raise the limit.",
        )


def _description_sum(folder: str, path: str, version: str) -> str:
    """The checksum of a module's go.mod, as go.sum has it."""
    name = f"{folder}/{_escaped(path)}/@v/{_escaped(version)}.mod"
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(file, "rb") as stream:
        digest = hashlib.sha256(stream.read(_MOST_DESCRIPTION)).hexdigest()
    return "h1:" + b64encode(hashlib.sha256(f"{digest}  go.mod\n".encode()).digest()).decode()


def _escaped(text: str) -> str:
    """A path in Go's cache, where a capital letter is written as `!` and its small one."""
    return re.sub("[A-Z]", lambda found: f"!{found[0].lower()}", text)
