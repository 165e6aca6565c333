"""Downloads the locked packages and checks their hashes.  A download that is interrupted goes on where it stopped."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from cloche.environment.failure import BuildFailed

__all__ = ["LOCK", "PIP_SETTINGS", "Requirement", "fetch", "missing", "pip_command", "requirements"]

# The user's index, proxy and certificates are honoured, but not the settings that would send the packages elsewhere.
PIP_SETTINGS = {
    "PIP_USER": "0",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
}

_HERE = Path(__file__).parent
LOCK = _HERE / "packages.lock"
_AT_ONCE = 3  # workers
_WORTH_ONE = 8  # packages for which it is worth to start another pip
_STAGING = ".fetching-"

Count = Callable[[int, int, int], None]  # packages that are ready, packages in all, bytes of the ready ones


@dataclass(frozen=True)
class Requirement:
    """A package of the lock."""

    name: str
    version: str
    text: str  # as pip reads it, with the hashes
    hashes: frozenset[str]


def requirements(slim: bool, lock: Path = LOCK) -> list[Requirement]:
    """Return the packages of the full or the slim environment."""
    text = re.sub(r"(?m)^\s*#.*\n?", "", lock.read_text())
    found = [_requirement(block) for block in re.split(r"\n(?=\S)", text.strip())]
    if not slim:
        return found
    wanted = {line for line in (_HERE / "slim.txt").read_text().splitlines() if line and not line.startswith("#")}
    return [each for each in found if each.name in wanted]


def fetch(wanted: Iterable[Requirement], folder: Path, count: Count = lambda *_: None) -> None:
    """Download the wheels that `folder` lacks; a file there always is complete and has a hash of the lock."""
    wanted = list(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{_STAGING}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    there = _hashes(folder)
    waiting: SimpleQueue[Requirement] = SimpleQueue()
    sizes = []
    for each in wanted:
        file = _file_of(each, there)
        if file is None:
            waiting.put(each)
        else:
            sizes.append(file.stat().st_size)
    count(len(sizes), len(wanted), sum(sizes))
    if waiting.empty():
        return
    failures: list[BaseException] = []

    def work(worker: "_Worker") -> None:
        while not failures:
            try:
                each = waiting.get_nowait()
            except Empty:
                return
            try:
                sizes.append(worker.fetch(each, folder))
            except BaseException as failure:
                failures.append(failure)
                return
            count(len(sizes), len(wanted), sum(sizes))

    with ExitStack() as stack:
        workers = [
            stack.enter_context(_worker(folder)) for _ in range(min(_AT_ONCE, -(-waiting.qsize() // _WORTH_ONE)))
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(workers)))
        try:
            for done in [pool.submit(work, worker) for worker in workers]:
                done.result()
        except BaseException as interruption:  # Ctrl-C: the threads wait for the workers
            failures.append(interruption)
            for worker in workers:
                worker.process.kill()
            raise
    if failures:
        raise failures[0]


def missing(wanted: Iterable[Requirement], folder: Path) -> list[Requirement]:
    """Return the packages for which a folder has no wheel with a hash of the lock."""
    there = _hashes(folder)
    return [each for each in wanted if _file_of(each, there) is None]


def pip_command() -> list[str]:
    """Return the command that starts pip; an interpreter without pip has one in `ensurepip` or in its base."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return [sys.executable, f"{_bundled_pip()}/pip"]


def _bundled_pip() -> str:
    """Find the wheel of pip that Python brings along for new virtual environments."""
    try:
        import ensurepip

        places = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]
    except ImportError:
        places = []
    for place in places:
        for wheel in sorted(place.glob("pip-*.whl")):
            return str(wheel)
    raise BuildFailed("pip was not found; install pip into the environment of Cloche and run `cloche setup` again")


@dataclass
class _Worker:
    """A process that downloads packages with pip, and the folder in which it does so."""

    process: subprocess.Popen[str]
    staging: Path

    def fetch(self, wanted: Requirement, folder: Path) -> int:
        """Download one wheel and put it into the folder; return its size, 0 if this Python does not need it."""
        listing = self.staging / "requirement.txt"
        listing.write_text(wanted.text + "\n")
        # The lock is complete, and every package in it has wheels: nothing is resolved, and nobody's build script runs.
        arguments = ["--quiet", "download", "--progress-bar", "off", "--require-hashes", "--no-deps"]
        arguments += ["--only-binary", ":all:", "--dest", str(self.staging), "--requirement", str(listing)]
        answer = self._ask(arguments)
        if answer["code"] != 0:
            reason = str(answer["said"]).rpartition("ERROR: ")[2].strip().rstrip(".") or "pip failed"
            raise BuildFailed(f"{wanted.name} {wanted.version} could not be downloaded: {reason}")
        size = 0
        for wheel in self.staging.glob("*.whl"):
            if _hash(wheel) not in wanted.hashes:
                raise BuildFailed(f"{wheel.name} is not the file that the lock names; nothing was installed")
            size = wheel.stat().st_size
            wheel.replace(folder / wheel.name)
        return size

    def _ask(self, arguments: list[str]) -> dict[str, object]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps(arguments), file=self.process.stdin, flush=True)
            answer: dict[str, object] = json.loads(self.process.stdout.readline())
        except (OSError, ValueError) as problem:
            raise BuildFailed("pip ended unexpectedly") from problem
        return answer


@contextmanager
def _worker(folder: Path) -> Iterator[_Worker]:
    found = importlib.util.find_spec("pip")
    pip = _bundled_pip() if found is None or found.origin is None else str(Path(found.origin).parent.parent)
    command = [sys.executable, "-I", str(_HERE / "pip_worker.py"), pip]
    with tempfile.TemporaryDirectory(prefix=_STAGING, dir=folder) as staging:
        settings = {**os.environ, **PIP_SETTINGS, "TMPDIR": staging}
        with subprocess.Popen(
            command, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                yield _Worker(process, Path(staging))
            finally:
                process.kill()


def _requirement(block: str) -> Requirement:
    named = re.match(r"([a-z0-9-]+)==(\S+)", block)
    if named is None:
        raise BuildFailed(f"the lock has a line that is no package: {block.splitlines()[0]}")
    return Requirement(named[1], named[2], block, frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", block)))


def _hashes(folder: Path) -> dict[str, Path]:
    return {_hash(wheel): wheel for wheel in folder.glob("*.whl")}


def _file_of(wanted: Requirement, there: dict[str, Path]) -> Path | None:
    return next((there[each] for each in wanted.hashes if each in there), None)


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
