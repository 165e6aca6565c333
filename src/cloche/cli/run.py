"""`cloche run`: a program, in a fresh sandbox, its output as it happens."""

from __future__ import annotations

import gc
import os
import sys

from cloche.errors import InvalidRun
from cloche.model.events import Output
from cloche.model.isolation import AUTO, ISOLATIONS
from cloche.model.limits import LIMITS, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence
    from typing import Any

    from cloche.blocking.sandbox.processes import Process
    from cloche.model.events import Event
    from cloche.model.result import Result

_INTERRUPTED = 130  # the exit code, as a shell has it
_NOT_OF_A_PROJECT = (".git", ".venv", "__pycache__", "target", ".mypy_cache")
_MAX_FILES, _MAX_BYTES = 2000, 64 << 20  # of a folder that is run as a project

_PLACEHOLDERS = {"seconds": "SECONDS", "bytes": "SIZE", "cores": "CORES", "processes": "N"}
_TYPES = {"SECONDS": float, "CORES": float, "N": int}  # by placeholder; the rest are texts
# name: default, placeholder, and what it does
OPTIONS: dict[str, tuple[Any, str, str]] = {
    **{
        row.name.replace("_", "-"): (row.default, _PLACEHOLDERS[row.unit], f"{row.help} (default {row.default})")
        for row in LIMITS
    },
    "file": ([], "SRC:DEST", "copy a file in; can be repeated"),
    "mount": ([], "SRC:DEST[:rw]", "show a host folder inside; can be repeated"),
    "entry": ("", "FILE", "where the program begins, if FILE is a folder and it is not plain"),
    "check": ("report", "HOW", "types of a TypeScript program: report (default), block or off"),
    "env": ([], "K=V", "set an environment variable; can be repeated"),
    "isolation": (AUTO, "NAME", f"where it runs: {', '.join(ISOLATIONS)} (default {AUTO})"),
    "url": ("", "URL", "run it on the server at this address (default CLOCHE_URL, else on this host)"),
    "api-key": ("", "KEY", "the key for that server (default CLOCHE_API_KEY)"),
    "json": (False, "", "print the result as JSON, at the end"),
    "stats": (False, "", "say what the run used, on standard error"),
}


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    command = commands.add_parser(
        "run",
        help="run a program in a fresh sandbox",
        description="Runs a program in a fresh sandbox and passes its output on as it happens.  Exits with the "
        "program's exit code; 124 when its time was up, 137 when it needed too much memory, 125 when cloche itself "
        "failed.",
        **shape,
    )
    command.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the program, or the folder of a project; - reads it from standard input",
    )
    command.add_argument("args", nargs="...", metavar="ARGS", help="arguments for the program")
    command.add_argument("-c", dest="code", metavar="CODE", help="the program as a text")
    command.add_argument("-l", "--language", help="by default told from FILE's name or contents; python for -c and -")
    for name, (default, placeholder, what) in OPTIONS.items():
        how: dict[str, Any] = {"default": default, "dest": _attribute(name), "help": what}
        if isinstance(default, bool):
            how["action"] = "store_true"
        else:
            how["metavar"] = placeholder
            how.update({"action": "append"} if isinstance(default, list) else {"type": _TYPES.get(placeholder, str)})
        command.add_argument(f"--{name}", **how)


def _attribute(name: str) -> str:
    return f"{name.replace('-', '_')}_"


class Arguments:
    """A command line, parsed; argparse's own `Namespace` takes too long to import."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def plain(words: Sequence[str]) -> Arguments | None:
    """Parse `run -c CODE` and `run FILE` without the ten milliseconds that argparse takes; None for everything else."""
    if len(words) not in (2, 3) or words[0] != "run" or words[-1].startswith("-"):
        return None
    if len(words) == 3 and words[1] != "-c":
        return None
    code, file = (words[2], None) if len(words) == 3 else (None, words[1])
    options = {_attribute(name): default for name, (default, _, _) in OPTIONS.items()}
    return Arguments(command="run", file=file, args=[], code=code, language=None, **options)


def main(arguments: Namespace | Arguments) -> int:
    """Run the program, and return the exit code."""
    from cloche.blocking.sandbox.one_shot import checked_job, execute
    from cloche.blocking.sandbox.places import place_for

    if arguments.code is not None and arguments.file is not None:  # `-c CODE first-argument …`
        arguments.args.insert(0, arguments.file)
    if arguments.file is not None and arguments.code is None and os.path.isdir(arguments.file):
        project, language, entry = _project(arguments)
        code, takes_stdin = _text(project[entry]), True
    else:
        code, language, takes_stdin = _program(arguments)
        project, entry = {}, None
    limits = Limits.of(**{row.name: getattr(arguments, _attribute(row.name)) for row in LIMITS})
    mounts = dict(_pair(text, "--mount", "SRC:DEST") for text in arguments.mount_)
    copied = [_pair(text, "--file", "SRC:DEST") for text in arguments.file_]
    env = dict(_pair(text, "--env", "K=V", "=") for text in arguments.env_)
    job = checked_job(
        code,
        limits,
        language=language,
        entry=entry,
        args=arguments.args,
        env=env,
        files=project,
        other_files={target: _read(source) for source, target in copied},
        check=arguments.check_,
        mounts=mounts,
        is_interactive=takes_stdin,
        is_counted=arguments.json_ or arguments.stats_,  # asking the wall takes half a millisecond
    )

    def started(process: Process, box: Any) -> None:
        gc.freeze()
        gc.enable()  # main.py has switched it off for the start; the rest may take long
        _pass_interrupts_on(process, box.let_go)
        if takes_stdin:
            _feed(process)

    isolation = arguments.isolation_
    place = place_for(arguments.url_ or None, arguments.api_key_ or None, isolation, None)
    # This process ends at once.  The default wall cleans up by itself; another may do so by a thread of this process.
    result = execute(place, job, started, None if arguments.json_ else _show, waits=isolation != AUTO)
    kind = None
    if result.error is not None:
        from cloche.model.kinds import kind_of  # most programs end well, and need not wait for it

        kind = kind_of(result.error.kind)
    _report(result, arguments, is_silent=kind is not None and kind.is_silent)
    return result.exit_code if kind is None or kind.exit_code is None else kind.exit_code


def _program(arguments: Namespace | Arguments) -> tuple[str, str, bool]:
    """The source, its language, and whether standard input is left for the program."""
    if arguments.code is not None:
        return arguments.code, arguments.language or "python", True
    if arguments.file is None:
        raise InvalidRun("There is nothing to run.", hint="Name a file, give a program with -c, or pass it in with -.")
    if arguments.file == "-":
        return _text(sys.stdin.buffer.read()), arguments.language or "python", False
    code = _text(_read(arguments.file))
    return code, arguments.language or _language_of(arguments.file, code), True


def _project(arguments: Namespace | Arguments) -> tuple[dict[str, bytes], str, str]:
    """All files of a folder, the language, and the entry among them."""
    from cloche.languages.entry import choose_entry

    folder, found, size = arguments.file, {}, 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_OF_A_PROJECT)
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), folder)
            data = _read_beneath(folder, path)
            if data is None:
                continue
            found[path] = data
            size += len(data)
            if len(found) > _MAX_FILES or size > _MAX_BYTES:
                raise InvalidRun(f"{folder} is too large for a project.", hint="Show it to the program with --mount.")
    entry = arguments.entry_ or None
    language, entry = choose_entry(arguments.language, entry, found)
    return found, language, entry


def _language_of(file: str, code: str) -> str:
    if file.endswith(".py"):
        return "python"  # without asking: most are, and a cold start has no time to lose
    from cloche.languages.detection import detect

    return detect(code, file=file).language or "python"


def _text(source: bytes) -> str:
    return source.decode("utf-8", "surrogateescape")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise InvalidRun(f"{path} cannot be read: {problem.strerror}.") from problem


def _read_beneath(folder: str, path: str) -> bytes | None:
    """A file of a project; None for a pipe, a socket or a device.  A link leads to a file of the same project only."""
    from errno import ENXIO
    from stat import S_ISREG

    from cloche.beneath import is_within, open_beneath

    root, shown = os.path.realpath(folder), os.path.join(folder, path)
    try:
        real = os.path.realpath(os.path.join(root, path))
        if not is_within(real, root):
            raise InvalidRun(
                f"{shown} is a link that leads out of {folder}.",
                hint="Copy the file into the folder, or remove the link.",
            )
        fd = open_beneath(root, os.path.relpath(real, root), os.O_RDONLY)
    except OSError as problem:
        if problem.errno == ENXIO:
            return None  # a socket
        raise InvalidRun(f"{shown} cannot be read: {problem.strerror}.") from problem
    with open(fd, "rb") as file:
        if not S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read(_MAX_BYTES + 1)


def _pair(text: str, option: str, shape: str, separator: str = ":") -> tuple[str, str]:
    first, found, second = text.partition(separator)
    if not found or not first or (separator == ":" and not second):
        raise InvalidRun(f"{option} {text!r} is not of the form {shape}.")
    return first, second


def _feed(process: Process) -> None:
    """Pass our standard input on to the program, until it ends."""
    from _thread import start_new_thread  # `threading` takes longer to import than a program to run

    def feed() -> None:
        from cloche.errors import ClocheError

        try:
            while data := os.read(0, 64 << 10):
                process.write(data)
            process.close_stdin()
        except (OSError, ClocheError):
            pass  # our input is closed, or the program has ended

    start_new_thread(feed, ())


def _show(event: Event) -> None:
    """Pass its output on, as it happens."""
    if isinstance(event, Output):
        stream = (sys.stdout if event.kind == "stdout" else sys.stderr).buffer
        stream.write(event.data)
        stream.flush()


def _pass_interrupts_on(process: Process, let_go: Callable[[], None]) -> None:
    """The first Ctrl-C is for the program; at the second we end its sandbox, and leave.

    A thread hears of them.  As an exception one would come in the middle of whatever holds a lock just now, or not at
    all: right before we begin to wait, it would not be seen until that is over.
    """
    from _signal import SIGINT, default_int_handler, getsignal, set_wakeup_fd, signal  # type: ignore[import-not-found]
    from _thread import start_new_thread

    if getsignal(SIGINT) is not default_int_handler:
        return  # the process that has started us wants it ignored
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)

    def listen() -> None:
        from cloche.errors import ClocheError

        for react, arguments in ((process.signal, ("SIGINT",)), (let_go, ())):
            os.read(reading, 1)
            try:
                react(*arguments)
            except (OSError, ClocheError):
                pass  # it is over already
        os._exit(_INTERRUPTED)

    set_wakeup_fd(writing)
    signal(SIGINT, lambda *_: None)
    start_new_thread(listen, ())


def _report(result: Result, arguments: Namespace | Arguments, is_silent: bool) -> None:
    if arguments.json_:
        print(_as_json(result))
    elif result.error is not None and is_silent:
        from cloche.cli.main import complain

        complain(f"{result.error.kind}: {result.error.message}", result.error.hint)
    if result.diagnostics and not arguments.json_ and not (result.error and result.error.kind == "syntax"):
        print(*result.diagnostics, sep="\n", file=sys.stderr)
    if arguments.stats_:
        parts = [
            f"exit {result.exit_code}",
            *([] if result.build_time is None else [f"built in {result.build_time * 1000:.1f} ms"]),
            f"{result.duration * 1000:.1f} ms",
            f"CPU {result.cpu_time * 1000:.1f} ms",
            f"peak {result.memory_peak / (1 << 20):.1f} MB",
            result.wall,
        ]
        print(" · ".join(parts), file=sys.stderr)


def _as_json(result: Result) -> str:
    from json import dumps

    from cloche.model.result import JSON_FIELDS

    fields = result.as_dict()
    return dumps({name: fields[name] for name in JSON_FIELDS})
