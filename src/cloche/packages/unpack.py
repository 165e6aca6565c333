"""Unpacks wheels into the tree of one layer.  It runs inside a sandbox and needs only the standard library.

    python3 -I -S unpack.py WHEELS TARGET python3.11      (with wheel.py beside it)

It prints one line of JSON: the packages, or the rule that a wheel breaks.  A wheel is read as hostile: its names, sizes
and hashes are checked before the first file is written, and its contents while they are written.  The host checks the
finished tree again (trees.py), so a wheel that took over this process would harm only the layer of its own sandbox.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import queue
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.packages.wheel import (
        MOST_BYTES,
        MOST_ENTRIES,
        SCRIPT_START,
        Member,
        Problem,
        Wheel,
        canonical,
        inflated,
        people_bytes,
        record_hash,
        shown,
    )
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `-I` leaves out the script's own folder
    from wheel import (
        MOST_BYTES,
        MOST_ENTRIES,
        SCRIPT_START,
        Member,
        Problem,
        Wheel,
        canonical,
        inflated,
        people_bytes,
        record_hash,
        shown,
    )

_MOST_SOURCE = 2 * 2**20  # longer sources are tables, and take long to compile
_TESTS = frozenset(("test", "tests"))  # folders whose modules hardly anybody imports
_PIPELINED = 8 * 2**20
_BATCH = 400_000  # what a message to a worker is worth, in bytes of a library


class Task(NamedTuple):
    """A file to check, and to write if it has a target."""

    wheel: Wheel
    member: Member
    target: str
    algorithm: str
    digest: bytes
    is_script: bool


def plan(wheels: list[Wheel], site: str) -> list[Task]:
    """Decide where every file goes, and refuse wheels that get in each other's way."""
    if (size := sum(wheel.size for wheel in wheels)) > MOST_BYTES:
        raise Problem("", "size", f"The wheels unpack to {people_bytes(size)}; {people_bytes(MOST_BYTES)} are allowed.")
    if (count := sum(len(wheel.members) for wheel in wheels)) > MOST_ENTRIES:
        raise Problem("", "size", f"The wheels have {count:,} files; {MOST_ENTRIES:,} are allowed.")
    tasks: list[Task] = []
    owners: dict[str, tuple[Wheel, tuple[str, bytes]]] = {}
    folders: dict[str, Wheel] = {}
    names: dict[str, Wheel] = {}

    def claim(path: str, wheel: Wheel, content: tuple[str, bytes]) -> bool:
        """Return whether the file is new; it may be there already if it is the same."""
        owner, other = owners.setdefault(path, (wheel, content))
        if owner is wheel and other is content:
            above = path
            while "/" in above and (above := above.rpartition("/")[0]) not in folders:
                folders[above] = wheel
            return True
        if owner is wheel or other != content:
            against = "twice" if owner is wheel else f", and {owner.file} installs it with other contents"
            wheel.refuse("conflict", f"installs the file {shown(path)} {against}".replace(" ,", ","))
        return False

    for wheel in wheels:
        if (other := names.setdefault(wheel.name, wheel)) is not wheel:
            wheel.refuse("conflict", f"and {other.file} are the same package")
        for script, text in wheel.scripts.items():
            claim(f"bin/{script}", wheel, ("text", text))
        for member in wheel.members.values():
            target, is_script = wheel.target(member.name, site)
            if member.name not in wheel.record:
                continue  # RECORD is rewritten, and then a signature of it proves nothing
            content = wheel.record[member.name][:2]
            if target and not claim(target, wheel, content):
                wheel.rows.append((target, "" if is_script else record_hash(*content), member.size))
                target = ""
            if target.endswith(".pyc"):
                wheel.compiled.add(target)
            tasks.append(Task(wheel, member, target, *content, is_script))
    for path, (wheel, _) in owners.items():
        if path in folders:
            wheel.refuse("conflict", f"installs the file {shown(path)}, where {folders[path].file} has a folder")
    return tasks


def write(task: Task, target: str) -> list[tuple[str, str, int | str]]:
    """Check a file and write it; return its rows for RECORD."""
    wheel, member = task.wheel, task.member
    checked, pieces = hashlib.new(task.algorithm), inflated(wheel, member)
    if not task.target:
        for piece in pieces:
            checked.update(piece)
        _check_hash(task, checked)
        return []
    is_program = member.is_program or task.is_script
    out = _create(os.path.join(target, task.target), 0o755 if is_program else 0o644)
    written, size, text = checked, member.size, b""
    try:
        if member.size > _PIPELINED:
            _pipeline(pieces, checked, out)
        else:
            text = b"".join(pieces)
            checked.update(text)
            if task.is_script and text.startswith(b"#!python"):
                text = SCRIPT_START + text[len(text.split(b"\n", 1)[0]) :]
                written, size = hashlib.new(task.algorithm, text), len(text)
            _write_all(out, text)
    finally:
        os.close(out)
    _check_hash(task, checked)
    rows: list[tuple[str, str, int | str]] = [(task.target, record_hash(task.algorithm, written.digest()), size)]
    if task.target.endswith(".py") and not task.is_script and "/site-packages/" in task.target:
        rows += _compiled(task, text, target)
    return rows


def _compiled(task: Task, text: bytes, target: str) -> list[tuple[str, str, int | str]]:
    """Compile a module, since no sandbox can write beside a source that is read-only.

    Measured with polars: its import takes 0.11 s with compiled modules and 0.32 s without, in every process of every
    sandbox; compiling takes 0.3 s, once, while the other processor unpacks the library.
    """
    path = importlib.util.cache_from_source(task.target)
    if path in task.wheel.compiled or not 0 < len(text) <= _MOST_SOURCE or not _TESTS.isdisjoint(path.split("/")):
        return []  # the wheel may bring its own
    try:
        code = compile(text, "/" + task.target, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return []  # a template, or a module for another version of Python
    # The layer never changes, so Python need not compare the source (PEP 552: by hash, unchecked).
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(text)
    data = head + marshal.dumps(code)
    out = _create(os.path.join(target, path), 0o644)
    try:
        _write_all(out, data)
    finally:
        os.close(out)
    return [(path, "", len(data))]


def _pipeline(pieces: Iterator[bytes], checked: Any, out: int) -> None:
    """Hash and write in one thread while another inflates: all three work outside the interpreter's lock."""
    waiting: queue.Queue[bytes | None] = queue.Queue(8)
    failures: list[BaseException] = []

    def drain() -> None:
        while (piece := waiting.get()) is not None:
            if failures:
                continue  # the other thread must not wait for ever
            try:
                checked.update(piece)
                _write_all(out, piece)
            except BaseException as failure:
                failures.append(failure)

    thread = threading.Thread(target=drain)
    thread.start()
    try:
        for piece in pieces:
            waiting.put(piece)
            if failures:
                break
    finally:
        waiting.put(None)
        thread.join()
    if failures:
        raise failures[0]


def _check_hash(task: Task, checked: Any) -> None:
    if checked.digest() != task.digest:
        task.wheel.refuse("record", f"has another hash for {shown(task.member.name)} in its RECORD")


def _create(path: str, mode: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        return os.open(path, flags, mode)


def _write_all(out: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(out, left) :]


def write_all(tasks: list[Task], target: str) -> None:
    """Write every file, in one process for each processor: compiling holds the interpreter's lock."""
    batches = _batches(tasks)
    tokens, feed = os.pipe()
    answers: list[tuple[int, int]] = []
    for _ in range(max(1, min(len(os.sched_getaffinity(0)), 8, len(batches)))):
        answer, back = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(feed)
                _work(tasks, batches, target, tokens, back)
            finally:
                os._exit(1)
        os.close(back)
        answers.append((pid, answer))
    os.close(tokens)
    try:
        for number in range(len(batches)):
            os.write(feed, number.to_bytes(4, "little"))
    except BrokenPipeError:
        pass  # every worker has found a problem
    os.close(feed)
    problems: list[tuple[int, str, str, str]] = []
    for pid, answer in answers:
        with open(answer, "rb") as stream:
            data = stream.read()
        os.waitpid(pid, 0)
        if not data:
            problems.append((len(tasks), "", "memory", "The unpacking of the wheels was killed; they may be too big."))
            continue
        rows, problem = marshal.loads(data)
        for index, found in rows:
            tasks[index].wheel.rows += found
        problems += problem
    if problems:
        raise Problem(*min(problems)[1:])


def _work(tasks: list[Task], batches: list[list[int]], target: str, tokens: int, back: int) -> None:
    rows: list[tuple[int, list[tuple[str, str, int | str]]]] = []
    problems: list[tuple[int, str, str, str]] = []
    while not problems and (token := os.read(tokens, 4)):
        for index in batches[int.from_bytes(token, "little")]:
            try:
                rows.append((index, write(tasks[index], target)))
            except Problem as problem:
                problems.append((index, problem.wheel, problem.rule, problem.message))
            except OSError as problem:
                message = f"The file {shown(tasks[index].target)} cannot be written: {problem.strerror}."
                problems.append((index, tasks[index].wheel.file, "disk", message))
            if problems:
                break
    _write_all(back, marshal.dumps((rows, problems)))
    os._exit(0)


def _batches(tasks: list[Task]) -> list[list[int]]:
    """Group files so that a batch is worth its message, with the costliest first."""

    def cost(index: int) -> int:
        member = tasks[index].member
        return 20_000 + member.size * (50 if member.name.endswith(".py") else 1)

    batches: list[list[int]] = []
    left = 0
    for index in sorted(range(len(tasks)), key=cost, reverse=True):
        if left <= 0:
            batches.append([])
            left = _BATCH
        batches[-1].append(index)
        left -= cost(index)
    return batches


def describe(wheel: Wheel, site: str, target: str, requested: set[str]) -> dict[str, Any]:
    """Write what belongs to a package but is not in its wheel, and describe the package."""
    own = {f"{site}/{wheel.info}/INSTALLER": b"cloche\n"}
    if wheel.name in requested:
        own[f"{site}/{wheel.info}/REQUESTED"] = b""
    own |= {f"bin/{name}": text for name, text in wheel.scripts.items()}
    record = f"{site}/{wheel.info}/RECORD"
    for path, text in own.items():
        wheel.rows.append((path, record_hash("sha256", hashlib.sha256(text).digest()), len(text)))
    # A compiled module has no hash there, as with other installers.
    rows = [(_from_site(path, site), written, size if written else "") for path, written, size in sorted(wheel.rows)]
    lines = [",".join((_quoted(path), written, str(size))) for path, written, size in rows]
    own[record] = "\n".join([*lines, f"{_quoted(_from_site(record, site))},,", ""]).encode()
    for path, text in own.items():
        try:
            out = _create(os.path.join(target, path), 0o755 if path.startswith("bin/") else 0o644)
        except FileExistsError:
            continue  # the same script, of another package
        try:
            _write_all(out, text)
        finally:
            os.close(out)
    paths = [path for path, _, _ in wheel.rows] + [record]
    inside = [path.removeprefix(f"{site}/") for path in paths if path.startswith(f"{site}/")]
    return {
        "name": wheel.name,
        "version": wheel.version,
        "files": len(paths),
        "bytes": sum(int(size or 0) for _, _, size in wheel.rows) + len(own[record]),
        "licence": wheel.licence,
        "pth": sorted(path for path in inside if path.endswith(".pth") and "/" not in path),
        "scripts": sorted(path.removeprefix("bin/") for path in paths if path.startswith("bin/")),
        "top": sorted({path.partition("/")[0] for path in inside}),
    }


def unpack(folder: str, target: str, python: str) -> dict[str, Any]:
    """Unpack every wheel of a folder; return the packages, or raise `Problem`."""
    os.umask(0o022)
    warnings.simplefilter("ignore")
    if not re.fullmatch(r"python3\.\d+", python):
        raise Problem("", "arguments", f"{python} is no folder of a Python.")
    site = f"lib/{python}/site-packages"
    wheels = [Wheel(folder, file) for file in sorted(os.listdir(folder)) if file.endswith(".whl")]
    requested: set[str] = set()
    if os.path.exists(listing := os.path.join(folder, "requested.json")):
        with open(listing, encoding="utf-8") as stream:
            requested = {canonical(name) for name in json.load(stream)}
    tasks = plan(wheels, site)
    os.makedirs(os.path.join(target, site), 0o755, exist_ok=True)
    write_all(tasks, target)
    return {"packages": [describe(wheel, site, target, requested) for wheel in wheels]}


def _from_site(path: str, site: str) -> str:
    return path.removeprefix(f"{site}/") if path.startswith(f"{site}/") else f"../../../{path}"


def _quoted(path: str) -> str:
    return '"' + path.replace('"', '""') + '"' if '"' in path or "," in path else path


def main() -> int:
    """Unpack what the command line names; print the packages or the problem."""
    try:
        answer = unpack(*sys.argv[1:4])
    except Problem as problem:
        answer = {"problem": {"wheel": problem.wheel, "rule": problem.rule, "message": problem.message}}
    except OSError as problem:
        message = f"The wheels cannot be unpacked: {problem.strerror}."
        answer = {"problem": {"wheel": "", "rule": "disk", "message": message}}
    print(json.dumps(answer))
    return 1 if "problem" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
