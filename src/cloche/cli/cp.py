"""`cloche cp`: copies files and folders into a sandbox on a server, and out of one.

Names and contents that come from a sandbox are not trusted: output_files.py writes them.
"""

from __future__ import annotations

import os
import sys

from cloche.errors import ClocheError, FileMissing, InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from cloche.blocking.client.sandbox import ServerSandbox
    from cloche.blocking.client.sandboxes import ServerSandboxes

_PIECE = 256 << 10
_NOT_ALL = 1  # the exit code when something was left out


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import servers

    parser = commands.add_parser(
        "cp",
        help="copy files into or out of a sandbox on a server",
        description="Copies a file or a folder into a sandbox on a server, or out of one.  One side is SANDBOX:PATH; a "
        "relative PATH starts at /sandbox.  - is standard input or output.  A local name with a colon needs ./ before "
        "it.",
        **shape,
    )
    parser.add_argument("source", metavar="SOURCE", help="what to copy: PATH, SANDBOX:PATH or -")
    parser.add_argument("target", metavar="TARGET", help="where to: SANDBOX:PATH, PATH or -")
    parser.add_argument("--hidden", action="store_true", help="also copy hidden files out of a folder of a sandbox")
    servers.add_options(parser)


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers

    source, target = _split(arguments.source), _split(arguments.target)
    if (source is None) == (target is None):
        raise InvalidRun("One side has to be in a sandbox, and the other one here.", "Write SANDBOX:PATH for it.")
    place = servers.sandboxes(arguments)
    if source is not None:
        box = _open(place, source[0])
        return _copy_out(box, source[1], arguments.target, takes_hidden=arguments.hidden)
    assert target is not None
    return _copy_in(arguments.source, _open(place, target[0]), target[1])


def _split(word: str) -> tuple[str, str] | None:
    """Return the sandbox and the path of SANDBOX:PATH; None for a path of this host."""
    name, colon, path = word.partition(":")
    if not colon or "/" in name or not name or name.startswith("."):
        return None
    return name, path or "/sandbox"


def _open(place: ServerSandboxes, word: str) -> ServerSandbox:
    box = place.box(place.find(word).id)
    box.open()
    return box


# --- out of a sandbox


def _copy_out(box: ServerSandbox, path: str, target: str, *, takes_hidden: bool) -> int:
    from cloche.cli.output_files import OutputFolder
    from cloche.cli.transfer import Transfer

    entry = box.files.stat(path)
    if entry.kind == "symlink":  # the sandbox follows its own link, within itself
        is_folder = _is_folder(box, path)
    else:
        is_folder = entry.kind == "directory"
        if not is_folder and entry.kind != "file":
            raise InvalidRun("It is neither a file nor a folder.", hint="Read it with `cloche exec`.")
    if target == "-":
        if is_folder:
            raise InvalidRun("A folder cannot be copied to standard output.", hint="Name a folder of this host.")
        return _print_file(box, path)
    name = os.path.basename(os.path.normpath(path))
    if os.path.isdir(target) and not (is_folder and name in ("", ".")):
        if name in ("", ".", ".."):
            raise InvalidRun(f"{path:.200} has no name to copy it to.", hint="Write one at the end of TARGET.")
        target = os.path.join(target, name)
    with Transfer(None if is_folder else entry.size) as transfer:
        if is_folder:
            real = entry.path if entry.kind == "directory" else f"{path.rstrip('/')}/."
            output = OutputFolder(target, {}, source=real, takes_hidden=takes_hidden, moved=transfer.moved)
            output.fill(box.files)
        else:
            folder, name = _place_of(target)
            output = OutputFolder(folder, {}, moved=transfer.moved)
            why = output.copy(box.files, path, name)
            if why:
                raise InvalidRun(f"{target} was not copied: {why.rstrip('.')}.")
    if is_folder:
        output.report()
    return _NOT_ALL if output.has_left_out else 0


def _is_folder(box: ServerSandbox, path: str) -> bool:
    try:
        box.files.list(path, 1)
    except ClocheError:
        return False
    return True


def _place_of(target: str) -> tuple[str, str]:
    """Return the folder and the name of a file of this host; the caller's own link is followed, as `cp` does."""
    if os.path.exists(target) and not os.path.isfile(target):
        raise InvalidRun(f"{target} is not a file.", hint="Name a file or a folder, or - for standard output.")
    folder, name = os.path.split(os.path.realpath(target))
    if not os.path.isdir(folder):
        raise InvalidRun(f"The folder {os.path.dirname(target)} does not exist.", hint="Make it first.")
    return folder, name


def _print_file(box: ServerSandbox, path: str) -> int:
    from cloche.cli.transfer import Transfer

    reader = box.files.reader(path, 0, None)
    with Transfer(reader.begin()) as transfer:
        while piece := reader.next():
            sys.stdout.buffer.write(piece)
            transfer.moved(len(piece))
    sys.stdout.buffer.flush()
    return 0


# --- into a sandbox


def _copy_in(source: str, box: ServerSandbox, path: str) -> int:
    from cloche.cli.transfer import Transfer

    if source == "-":
        with Transfer(None) as transfer:
            _send(box, sys.stdin.buffer.fileno(), path, None, transfer)
        return 0
    if not os.path.exists(source):
        raise InvalidRun(f"There is no {source} here.", hint="SANDBOX:PATH is a file in a sandbox.")
    name = os.path.basename(os.path.abspath(source))
    if path.endswith("/") or _is_existing_folder(box, path):
        path = f"{path.rstrip('/')}/{name}"
    files = list(_files(source)) if os.path.isdir(source) else [(source, "")]
    left_out = []
    total = sum(os.stat(file).st_size for file, _ in files if os.path.isfile(file))
    with Transfer(total) as transfer:
        if os.path.isdir(source):
            box.files.mkdir(path)
        for file, below in files:
            target = f"{path}/{below}" if below else path
            if os.path.isdir(file) and not os.path.islink(file):
                box.files.mkdir(target)
            elif os.path.isfile(file):
                _send_file(box, file, target, transfer)
            else:
                left_out.append(file)
    for file in left_out:
        print(f"cloche: {file} is neither a file nor a folder, and was not copied.", file=sys.stderr)
    return _NOT_ALL if left_out else 0


def _is_existing_folder(box: ServerSandbox, path: str) -> bool:
    try:
        entry = box.files.stat(path)
    except FileMissing:
        return False
    return entry.kind == "directory" or (entry.kind == "symlink" and _is_folder(box, path))


def _files(folder: str) -> Iterator[tuple[str, str]]:
    """Walk through a folder of this host: each path, and the path below it."""
    for place, folders, names in os.walk(folder):
        for name in sorted(folders + names):
            path = os.path.join(place, name)
            yield path, os.path.relpath(path, folder)


def _send_file(box: ServerSandbox, file: str, path: str, transfer: Any) -> None:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as problem:
        raise InvalidRun(f"{file} cannot be read: {problem.strerror}.") from None
    try:
        _send(box, fd, path, os.fstat(fd).st_mode & 0o777, transfer)
    finally:
        os.close(fd)


def _send(box: ServerSandbox, fd: int, path: str, mode: int | None, transfer: Any) -> None:
    writer = box.files.writer(path, mode, False, False, None, None)
    writer.begin()
    while piece := os.read(fd, _PIECE):
        writer.write(piece)
        transfer.moved(len(piece))
    writer.finish()
