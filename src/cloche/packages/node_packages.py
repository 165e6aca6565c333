"""Node packages: resolved by npm, downloaded, and unpacked, each step in a sandbox that runs only our programs."""

from __future__ import annotations

import json
import os
import re
import shutil
from datetime import UTC, datetime
from functools import lru_cache
from time import time

from cloche.errors import InvalidRun, Refused, SandboxFailed, Unavailable
from cloche.model.files import Mount
from cloche.model.npm_versions import is_range, is_within
from cloche.model.packages import JAVASCRIPT
from cloche.packages import downloads, node_lock, npm_configuration, workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cloche.model.packages import Lock, Requirement
    from cloche.packages.policy import PackagePolicy

_RESOLVE_S, _UNPACK_S, _SCRIPTS_S = 180.0, 300.0, 300.0
_MAX_LOCK = 8 << 20
_MOST_UNPACKED = 1 << 30
_COMPILERS = ("esbuild", "typescript", "undici-types")  # they are for our own work
_OF_COMPILERS = ("@esbuild", "@swc", "@types", "@typescript")
_NO_INDEX = ("ECONNREFUSED", "ENOTFOUND", "ETIMEDOUT", "ECONNRESET", "EAI_AGAIN", "E500", "E502", "E503", "E504")
_DONE = "--- resolved ---"
_RESOLVE = f"""cd /sandbox/wanted
PATH=${{PATH//\\/opt\\/bin:/}}
npm install "$@" --package-lock-only --ignore-scripts --no-audit --no-fund --no-update-notifier --no-progress \
    --lockfile-version=3 --omit-lockfile-registry-resolved=false --loglevel=error --fetch-retries=2 \
    --fetch-timeout=30000 --cache /tmp/npm < /dev/null >&2 || exit 1
echo '{_DONE}'
exec /opt/env/bin/python3 -I -S read_npm.py package-lock.json /tmp/npm
"""
# npm gives the scripts the folders of programs that packages bring; a layer has no links, so these go again, and a file
# with a second name becomes two files.
_RUN_SCRIPTS = """cd /sandbox/tree
PATH=${PATH//\\/opt\\/bin:/}
npm rebuild "$@" --offline --no-audit --no-fund --foreground-scripts --loglevel=error --cache /tmp/npm < /dev/null >&2
status=$?
find . -name .bin -type d -prune -exec rm -rf {} +
rm -f node_modules/.package-lock.json
find . -type f -links +1 -exec sh -c 'cp -p "$1" "$1.copy" && mv "$1.copy" "$1"' copy {} ';'
exit $status
"""


def present(environment: str) -> dict[str, str]:
    """The packages that programs in all sandboxes can require, with their versions."""
    return dict(_present(environment))


@lru_cache(4)
def _present(environment: str) -> tuple[tuple[str, str], ...]:
    folder, names = f"{environment}/lib/node_modules", []
    for entry in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if entry in (*_COMPILERS, *_OF_COMPILERS) or entry.startswith("."):
            continue
        names += [f"{entry}/{each}" for each in os.listdir(f"{folder}/{entry}")] if entry[0] == "@" else [entry]
    found = []
    for name in names:
        try:
            with open(f"{folder}/{name}/package.json", encoding="utf-8") as file:
                found.append((name, str(json.load(file)["version"])))
        except (OSError, ValueError, KeyError):
            continue
    return tuple(found)


def satisfies(version: str | None, requirement: Requirement) -> bool:
    """Whether a version that is there already is what a requirement asks for."""
    bound = requirement.text.removeprefix(requirement.name).removeprefix("@")
    if version is None or requirement.hashes:
        return False
    return not bound or (is_range(bound) and is_within(version, bound))


def resolve(requirements: Sequence[Requirement], policy: PackagePolicy, _: Mapping[str, str]) -> Lock:
    """Have npm choose a version and a folder for each package that is needed.

    Packages that are there already do not matter: Node finds a package's dependencies beside it, in its own layer.
    """
    npm = npm_configuration.find()
    if not npm.hosts():
        raise Unavailable("This host has no npm.", "Install Node with npm on the host that runs Cloche.")
    bounds = policy.bounds_for(JAVASCRIPT)
    dependencies = {each.name: _bound(each, bounds.get(each.name, "")) for each in requirements}
    result = workshop.run(
        _RESOLVE,
        language="bash",
        args=_age_options(requirements, policy),
        files={
            "wanted/read_npm.py": workshop.program("read_npm"),
            "wanted/package.json": json.dumps({"name": "requirements", "private": True, "dependencies": dependencies}),
            "wanted/.npmrc": npm.settings(),
        },
        env=_VARIABLES,
        network=npm.hosts(),
        timeout_s=_RESOLVE_S,
        output=_MAX_LOCK,
    )
    answer = result.stdout.partition(f"{_DONE}\n")[2]
    if result.exit_code or not answer:
        raise _unresolved(result.stderr or result.stdout)
    try:
        return node_lock.lock_of(json.loads(answer)["packages"], npm, policy)
    except (ValueError, KeyError, TypeError) as problem:
        raise Unavailable(f"The package registry gave an answer that makes no sense: {problem}.") from None


# The variables of a sandbox would go before the file .npmrc.
_VARIABLES = {"npm_config_registry": "", "npm_config_fetch_retries": "2"}


def _bound(requirement: Requirement, of_policy: str) -> str:
    """The range for npm; a version that the policy rules out is not even looked at."""
    own = requirement.text.removeprefix(requirement.name).removeprefix("@") or "*"
    if not of_policy or requirement.pinned or not is_range(own) or " - " in own + of_policy:
        return "" if own == "*" and not of_policy else own  # "" stands for the newest release
    if own == "*":
        return of_policy
    return " || ".join(f"{one.strip()} {other.strip()}" for one in own.split("||") for other in of_policy.split("||"))


def _age_options(requirements: Sequence[Requirement], policy: PackagePolicy) -> tuple[str, ...]:
    if not policy.min_age_days:
        return ()
    before = datetime.fromtimestamp(time() - policy.min_age_days * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    pinned = [f"--min-release-age-exclude={each.name}" for each in requirements if each.pinned]
    return (f"--before={before}", *pinned)


def _unresolved(text: str) -> Exception:
    lines = [line.removeprefix("npm error").removeprefix("npm ERR!").strip() for line in text.splitlines()]
    kept = [line for line in lines if line and "A complete log" not in line and not line.startswith("npm warn")]
    reason = " ".join(kept)[:1500] or "npm says nothing about the reason"
    if any(sign in reason for sign in _NO_INDEX):
        return Unavailable(
            f"The package registry does not answer as it should: {reason}",
            "Try again in a moment. If it stays so, check the npm configuration of the host that runs Cloche.",
        )
    hint = "Check the names and versions of the packages."
    if "with a date before" in reason or "ETARGET" in reason:
        hint += " Releases of the last days are left out; name an exact version to get one."
    return InvalidRun(f"The packages cannot be resolved: {reason}", hint)


def build(lock: Lock, policy: PackagePolicy, cache: str, staging: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Download a lock's files, and unpack them into `staging`/tree/node_modules; returns the layer's details."""
    npm = npm_configuration.find()
    files = downloads.fetch(lock, cache, policy.size, npm.authorization(), npm.hosts(), report)
    os.mkdir(f"{staging}/files", 0o755)
    order = []
    for number, each in enumerate(lock.packages):
        os.link(files[each.file.hash], f"{staging}/files/{number}.tgz")
        order.append({"name": each.name, "version": each.version, "places": each.place.split("\n")})
    os.mkdir(f"{staging}/tree")
    os.chmod(f"{staging}/tree", 0o777)  # the sandbox has another user; nobody else reaches this folder
    report("Unpacking packages")
    tree = Mount(f"{staging}/tree", "/sandbox/tree", writable=True)
    result = workshop.run(
        workshop.program("unpack_node"),
        args=("/sandbox/files", "/sandbox/tree", str(_MOST_UNPACKED)),
        stdin=json.dumps(order),
        mounts=(Mount(f"{staging}/files", "/sandbox/files"), tree),
        timeout_s=_UNPACK_S,
    )
    answer = workshop.answer(result)
    problem = answer.get("problem")
    if problem is not None:
        raise Refused(
            f"{str(problem.get('package'))[:200]} is not installed: {str(problem.get('message'))[:500]}.",
            hint="The file breaks a rule for packages, and may be malicious. Choose another version.",
        )
    _run_scripts([each.name for each in lock.packages if each.runs_scripts], tree, report)
    return {"packages": answer["packages"]}


def _run_scripts(names: Sequence[str], tree: Mount, report: Callable[[str], None]) -> None:
    """Run the install scripts of packages that the policy names, without a network."""
    if not names:
        return
    report("Running install scripts")
    result = workshop.run(
        _RUN_SCRIPTS, language="bash", args=tuple(dict.fromkeys(names)), mounts=(tree,), timeout_s=_SCRIPTS_S
    )
    if result.exit_code:
        lines = [line for line in result.stderr.splitlines() if "A complete log" not in line]
        reason = re.sub(r"\s+", " ", " ".join(lines))[-800:].strip()
        raise SandboxFailed(
            f"The install scripts of {', '.join(names)[:200]} have failed: {reason or 'no reason was given'}",
            hint="They run without a network. Take the package out of packages.scripts to install it without them.",
        )


def is_available() -> bool:
    """Whether the host has npm."""
    return shutil.which("npm") is not None
