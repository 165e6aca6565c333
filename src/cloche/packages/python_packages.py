"""Python packages: resolved by uv, downloaded, and unpacked, each step in a sandbox that runs only our programs."""

from __future__ import annotations

import os
import re
import tomllib
from base64 import b64encode
from datetime import UTC, datetime
from functools import lru_cache
from time import time
from urllib.parse import unquote, urlsplit

from cloche.errors import InvalidRun, Refused, Unavailable
from cloche.model.files import Mount
from cloche.model.packages import Lock, LockedFile, LockedPackage, Requirement
from cloche.packages import downloads, workshop
from cloche.packages import indexes as package_indexes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cloche.packages.policy import PackagePolicy

_RESOLVE_S, _UNPACK_S = 120.0, 300.0
_MAX_LOCK = 8 << 20
_FILE_NAME = re.compile(r"[A-Za-z0-9_.+!-]{1,250}\.whl")
_NO_INDEX = (
    *("error sending request", "Failed to fetch", "Could not connect", "operation timed out", "dns error"),
    *("Connection refused", "HTTP status server error", "tls handshake"),
)


def normalised(name: str) -> str:
    """A name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def present(environment: str) -> dict[str, str]:
    """The packages of the sandboxes' environment, with their versions."""
    return dict(_present(environment))


@lru_cache(4)
def _present(environment: str) -> tuple[tuple[str, str], ...]:
    libraries = [f"{environment}/lib/{name}/site-packages" for name in sorted(os.listdir(f"{environment}/lib"))]
    found = []
    for folder in filter(os.path.isdir, libraries):
        for entry in os.listdir(folder):
            if entry.endswith(".dist-info"):
                name, _, version = entry.removesuffix(".dist-info").partition("-")
                found.append((normalised(name), version))
    return tuple(found)


def resolve(requirements: Sequence[Requirement], policy: PackagePolicy, known: Mapping[str, str]) -> Lock:
    """Choose a version of each package that is needed; those of `known` are preferred where they fit."""
    preferred = "".join(f'[[packages]]\nname = "{name}"\nversion = "{version}"\n' for name, version in known.items())
    bounds = [f"{name}{bound}" for name, bound in policy.bounds_for("python").items()]
    files = {
        "requirements.in": "".join(f"{each.text}\n" for each in requirements),
        "constraints.in": "".join(f"{each}\n" for each in bounds),
        "pylock.toml": f'lock-version = "1.0"\ncreated-by = "cloche"\n{preferred or "packages = []"}\n',
    }
    result = workshop.run(
        " ".join(_command(requirements, policy)),
        language="bash",
        files={f"wanted/{name}": text for name, text in files.items()},
        env=_index_variables(),
        network=list(package_indexes.find().pip_hosts),
        timeout_s=_RESOLVE_S,
        output=_MAX_LOCK,
    )
    if result.exit_code:
        raise _unresolved(result.stderr)
    return _lock(result.stdout)


def _command(requirements: Sequence[Requirement], policy: PackagePolicy) -> list[str]:
    words = [
        "cd /sandbox/wanted && /opt/env/bin/uv pip compile requirements.in --constraint constraints.in --quiet",
        "--format pylock.toml --output-file pylock.toml --python /opt/env/bin/python3 --only-binary :all:",
        "--no-config --no-cache --no-progress --no-header --no-annotate",
    ]
    if policy.min_age_days:
        words.append(f"--exclude-newer {_date(time() - policy.min_age_days * 86_400)}")
        now = _date(time() + 86_400)
        words += [f"--exclude-newer-package {each.name}={now}" for each in requirements if each.pinned]
    return [*words, "> /dev/null && cat pylock.toml"]


def _date(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _index_variables() -> dict[str, str]:
    """The host's index for uv; with the credentials, since nobody's code runs in this sandbox."""
    main, extra = package_indexes.with_credentials()
    return {
        "UV_OFFLINE": "false",
        "UV_DEFAULT_INDEX": main,
        "UV_INDEX": " ".join(extra),
        "UV_HTTP_TIMEOUT": "20",
        "UV_HTTP_RETRIES": "2",
        "UV_NATIVE_TLS": "true",
    }


def _unresolved(text: str) -> Exception:
    # uv draws a tree around its sentences.
    reason = " ".join(re.sub(r"[^\x20-\x7e]+", " ", text).split()).removeprefix("x ")[:1500]
    if any(sign in reason for sign in _NO_INDEX):
        return Unavailable(
            f"The package index does not answer as it should: {reason}",
            "Try again in a moment. If it stays so, check the pip configuration of the host that runs Cloche.",
        )
    hint = "Check the names and versions of the packages."
    if "exclude-newer" in reason or "only versions" in reason.lower():
        hint += " Releases of the last days are left out; name an exact version to get one."
    if "no wheels" in reason or "only-binary" in reason or "building from source is disabled" in reason:
        hint = "Only packages with wheels for this Python and machine can be installed; choose another version."
    return InvalidRun(f"The packages cannot be resolved: {reason}", hint)


def _lock(text: str) -> Lock:
    """Read what uv has written, which comes out of a sandbox."""
    try:
        packages = tomllib.loads(text)["packages"]
        found = [_package(each) for each in packages]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError, AttributeError) as problem:
        raise Unavailable(f"The package index gave an answer that makes no sense: {problem}.") from None
    return Lock(ecosystem="python", packages=tuple(sorted(found, key=lambda each: each.name)))


def _package(entry: dict[str, Any]) -> LockedPackage:
    wheel = entry["wheels"][0]
    name = wheel.get("name") or unquote(urlsplit(wheel["url"]).path.rpartition("/")[2])
    digest = wheel["hashes"]["sha256"]
    if not _FILE_NAME.fullmatch(name) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"a file of {entry['name']!r:.100} has no usable name or hash")
    uploaded = wheel.get("upload-time")
    size = wheel.get("size")
    return LockedPackage(
        ecosystem="python",
        name=normalised(str(entry["name"])),
        version=str(entry["version"]),
        file=LockedFile(
            name=name,
            url=str(wheel["url"]),
            hash=f"sha256:{digest}",
            size=size if type(size) is int else None,
            uploaded=uploaded.timestamp() if isinstance(uploaded, datetime) else None,
        ),
    )


def build(lock: Lock, policy: PackagePolicy, cache: str, staging: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Download a lock's wheels, and unpack them into `staging`/tree; returns the layer's details."""
    wheels = downloads.fetch(lock, cache, policy.size, authorization(), package_indexes.find().pip_hosts, report)
    os.mkdir(f"{staging}/wheels", 0o755)
    for each in lock.packages:
        os.link(wheels[each.file.hash], f"{staging}/wheels/{each.file.name}")
    os.mkdir(f"{staging}/tree")
    os.chmod(f"{staging}/tree", 0o777)  # the sandbox has another user; nobody else reaches this folder
    report("Unpacking packages")
    result = workshop.run(
        files={f"{name}.py": workshop.program(name) for name in ("unpack", "wheel")},
        entry="unpack.py",
        args=("/sandbox/wheels", "/sandbox/tree", workshop.PYTHON),
        mounts=(Mount(f"{staging}/wheels", "/sandbox/wheels"), Mount(f"{staging}/tree", "/sandbox/tree", True)),
        timeout_s=_UNPACK_S,
    )
    answer = workshop.answer(result)
    problem = answer.get("problem")
    if problem is not None:
        raise Refused(
            f"{str(problem.get('wheel'))[:200]} is not installed: {str(problem.get('message'))[:500]}.",
            hint="The file breaks a rule for packages, and may be malicious. Choose another version.",
        )
    return {"packages": answer["packages"]}


def authorization() -> dict[str, str]:
    """The credentials of the host's indexes, as headers by host."""
    found = {}
    main, extra = package_indexes.with_credentials()
    for url in (main, *extra):
        parts = urlsplit(url)
        if parts.username is not None and parts.hostname:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            found[parts.netloc.rpartition("@")[2]] = "Basic " + b64encode(pair.encode()).decode()
    return found
