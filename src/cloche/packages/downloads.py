"""Downloaded package files, kept by their hashes, so that each comes once from the index."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from base64 import b64decode

from cloche.errors import Refused, Unavailable
from cloche.model.files import Mount
from cloche.packages import workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cloche.model.packages import Lock

_FETCH_S = 600.0
_MOST_KEPT = 4 << 30
_MIB = 1 << 20


def fetch(
    lock: Lock,
    cache: str,
    most_bytes: int,
    authorization: Mapping[str, str],
    hosts: Sequence[tuple[str, int]],
    report: Callable[[str], None],
) -> dict[str, str]:
    """Return the path of each file of a lock, by its hash; those that are missing are downloaded and checked."""
    os.makedirs(cache, mode=0o700, exist_ok=True)
    paths = {each.file.hash: f"{cache}/{_name(each.file.hash)}" for each in lock.packages}
    missing = [each.file for each in lock.packages if not _is_there(paths[each.file.hash])]
    if not missing:
        return paths
    report(f"Downloading {len(missing)} of {len(lock.packages)} packages")
    _make_room(cache)
    incoming = tempfile.mkdtemp(prefix="incoming-", dir=cache)
    try:
        os.mkdir(f"{incoming}/files")
        os.chmod(f"{incoming}/files", 0o777)  # the sandbox has another user; nobody else reaches this folder
        order = {
            "files": [{"url": each.url, "name": str(number), "size": each.size} for number, each in enumerate(missing)],
            "folder": "/sandbox/files",
            "most_bytes": most_bytes,
            "authorization": dict(authorization),
        }
        result = workshop.run(
            workshop.program("fetch"),
            stdin=json.dumps(order),
            mounts=(Mount(f"{incoming}/files", "/sandbox/files", writable=True),),
            network=hosts,
            timeout_s=_FETCH_S,
        )
        answer = workshop.answer(result)
        if "too_large" in answer:
            raise _too_large(int(answer["too_large"]), most_bytes)
        if "failed" in answer:
            raise Unavailable(
                f"The package index did not send the files: {str(answer['failed'])[:500]}.",
                hint="Try again in a moment; what has arrived completely is kept.",
            )
        for number, each in enumerate(missing):
            _take(f"{incoming}/files/{number}", each.hash, each.name, paths[each.hash])
        return paths
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _too_large(size: int, most_bytes: int) -> Refused:
    return Refused(
        f"The packages are {size / _MIB:,.0f} MB to download, and {most_bytes / _MIB:,.0f} MB are allowed "
        "(packages.size).",
        hint="Ask for fewer or smaller packages, or have the operator raise the limit.",
    )


def _name(digest: str) -> str:
    kind, _, value = digest.partition(":") if ":" in digest else digest.partition("-")
    return value if kind == "sha256" else b64decode(value).hex()


def _is_there(path: str) -> bool:
    try:
        os.utime(path)  # the least recently used file goes first
        return True
    except OSError:
        return False


def _take(source: str, wanted: str, name: str, target: str) -> None:
    """Move a file out of the sandbox's folder, if it is what the lock says.  The sandbox has ended by now."""
    file = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise Unavailable(f"{name} did not arrive as a file.", hint="Try again.")
        kind = "sha256" if wanted.startswith("sha256:") else wanted.partition("-")[0]
        digest = hashlib.new(kind)
        while data := os.read(file, _MIB):
            digest.update(data)
        if digest.hexdigest() != _name(wanted):
            raise Unavailable(
                f"The index sent a file {name} whose contents are not those that it promised (its hash differs).",
                hint="Try again; if it stays so, the index or a proxy before it is broken or was tampered with.",
            )
        if os.geteuid() == 0:
            os.fchown(file, 0, 0)
        os.fchmod(file, 0o444)
    finally:
        os.close(file)
    os.replace(source, target)


def _make_room(cache: str) -> None:
    with os.scandir(cache) as entries:
        files = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in entries if e.is_file())
    excess = sum(size for _, size, _ in files) - _MOST_KEPT
    for _, size, path in files:
        if excess <= 0:
            return
        excess -= size
        try:
            os.unlink(path)
        except OSError:
            pass  # another process was quicker
