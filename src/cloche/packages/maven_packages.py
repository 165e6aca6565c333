"""Files of a Maven repository: Maven names those that a project needs, and each is then downloaded independently.

Maven's own plugins run while it finds out, in a sandbox that reaches only the repository.  Nothing that they write is
kept, only the names and hashes of files; whoever could change a file there would only cause an error here.  Maven has
no lock file, so the hash of each file is recorded on its first use, and must stay the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from html import escape

from cloche.errors import InvalidRun, Refused, Unavailable
from cloche.model.manifests import MAVEN
from cloche.model.packages import Lock, LockedFile, LockedPackage
from cloche.packages import downloads, indexes, workshop
from cloche.packages.resolved import Resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.model.manifests import Manifests
    from cloche.packages.policy import PackagePolicy

_RESOLVE_S = 300.0
_MOST_LISTED = 8 << 20
_PATH = re.compile(r"(?:[A-Za-z0-9_][\w.+-]{0,150}/){3,30}[A-Za-z0-9_][\w.+-]{0,200}", re.ASCII)
_HASH = re.compile("[0-9a-f]{64}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PLUGIN = re.compile(r"<plugin>(.*?)</plugin>", re.DOTALL)
_USUAL_PLUGIN = re.compile(r"<artifactId>\s*maven-(?:clean|compiler|surefire|jar|resources|install)-plugin\s*<")
_NO_REPOSITORY = (
    *("Could not transfer", "Connect to", "Connection refused", "timed out", "Unknown host", "status code: 5"),
    "NoPluginFoundForPrefix",  # of the usual plugins, which every repository has
    *("Network is unreachable", "Bad Gateway", "Service Unavailable"),
)


def resolve(manifests: Manifests) -> Resolved:
    """Have Maven name the files that a project needs; the project's code is not there."""
    found = indexes.find()
    if not found.maven:
        raise Unavailable(
            "This host has no Maven.", hint="Install Maven on the host, for the user that Cloche runs as."
        )
    models = [_COMMENT.sub("", text) for text in manifests.files.values()]
    if any("<extensions>" in text.replace("<extensions>false<", "") for text in models):
        raise Refused(
            "A pom.xml of the project names an extension, which would run while its dependencies are looked for.",
            hint="Remove <extensions>, or build the project where it has a network.",
        )
    order = {
        "files": dict(manifests.files),
        "folder": manifests.folder,
        "settings": _settings(found.maven),
        "is_plain": all(map(_is_plain, models)),
    }
    result = workshop.run(
        workshop.program("read_maven"),
        stdin=json.dumps(order),
        # Without the stand-in of `mvn`, which would ask us again.
        env={"npm_config_registry": "", "MAVEN_OPTS": "-Xmx768m -XX:TieredStopAtLevel=1"},
        network=found.maven_hosts,
        timeout_s=_RESOLVE_S,
        output=_MOST_LISTED,
    )
    answer = workshop.answer(result)
    if "failed" in answer:
        raise _problem(str(answer["failed"]))
    classpath = set(answer["classpath"])
    packages = [
        _package(found.maven, str(path), str(digest), int(size), path in classpath)
        for path, digest, size in answer["files"]
    ]
    return Resolved(Lock(ecosystem=MAVEN, packages=tuple(packages)), dict(manifests.files))


def locked(_: Manifests) -> Resolved | None:
    """Maven has no lock file."""
    return None


def _is_plain(model: str) -> bool:
    """Tell whether a model names no plugins but those of each build."""
    return all(_USUAL_PLUGIN.search(plugin) for plugin in _PLUGIN.findall(model))


def _settings(address: str) -> str:
    mirror = f"<mirror><id>cloche</id><mirrorOf>*</mirrorOf><url>{escape(address)}</url></mirror>"
    return f"<settings><mirrors>{mirror}</mirrors></settings>\n"


def _problem(text: str) -> Exception:
    reason = " ".join(text.split())[:1500]
    if any(sign in reason for sign in _NO_REPOSITORY):
        return Unavailable(
            f"The Maven repository does not answer as it should: {reason}",
            "Try again in a moment. If it stays so, check the settings of Maven on the host that runs Cloche.",
        )
    return InvalidRun(f"Maven cannot resolve the dependencies: {reason}", "Correct the pom.xml, and try again.")


def _package(address: str, path: str, digest: str, size: int, is_dependency: bool) -> LockedPackage:
    """A file of the repository; only jars of the project's own dependencies count as packages of its."""
    if not _PATH.fullmatch(path) or ".." in path or not _HASH.fullmatch(digest):
        raise Unavailable(f"Maven names an odd file: {path!r:.200}.", hint="Try again.")
    group, artifact, version, name = path.rsplit("/", 3)
    return LockedPackage(
        ecosystem=MAVEN,
        name=f"{group.replace('/', '.')}:{artifact}",
        version=version if is_dependency else f"{version}/{name}",
        file=LockedFile(path, f"{address.rstrip('/')}/{path}", f"sha256:{digest}", size),
    )


def build(lock: Lock, policy: PackagePolicy, cache: str, staging: str, report: Callable[[str], None]) -> dict[str, Any]:
    """Download the files of a lock, and make `staging`/tree/repository of them; returns the layer's details."""
    os.makedirs(cache, mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(f"{cache}/../maven-hashes.db", timeout=30)) as known:
        known.execute("CREATE TABLE IF NOT EXISTS seen (path TEXT PRIMARY KEY, hash TEXT) WITHOUT ROWID")
        for each in lock.packages:
            row = known.execute("SELECT hash FROM seen WHERE path = ?", (each.file.name,)).fetchone()
            if row is not None and row[0] != each.file.hash:
                raise Unavailable(
                    f"The file {each.file.name} has other contents than when it was first used here.",
                    hint="Nothing was kept. A released file never changes, so the repository may be tampered with.",
                )
        files = downloads.fetch(lock, cache, policy.size, {}, indexes.find().maven_hosts, report)
        for each in lock.packages:
            _copy(files[each.file.hash], f"{staging}/tree/repository/{each.file.name}")
        rows = [(each.file.name, each.file.hash) for each in lock.packages]
        with known:
            known.executemany("INSERT OR IGNORE INTO seen VALUES (?, ?)", rows)
    own = sorted(each.file.name for each in lock.packages if "/" not in each.version)
    with open(f"{staging}/tree/classpath", "w", encoding="utf-8") as file:
        file.writelines(f"repository/{path}\n" for path in own)
    return {"packages": []}


def _copy(source: str, target: str) -> None:
    """Copy a file, and put beside it the checksum that Maven looks for."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    with open(target, "rb") as file:
        digest = hashlib.file_digest(file, "sha1").hexdigest()
    with open(f"{target}.sha1", "w", encoding="ascii") as checksum:
        checksum.write(digest)
