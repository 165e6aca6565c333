"""`cloche run`: a program, in a fresh sandbox, its output as it happens."""

from __future__ import annotations

import gc
import os
import sys

from cloche.cli.attached import feed, pass_interrupts_on, show_output
from cloche.errors import Gone, InvalidRun
from cloche.model.events import Output, Started
from cloche.model.isolation import AUTO, ISOLATIONS
from cloche.model.limits import LIMITS, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from cloche.blocking.sandbox.processes import Process
    from cloche.model.events import Event
    from cloche.model.network import Network
    from cloche.model.result import Result

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
    "env": ([], "K=V", "set an environment variable, or name the environment to start from; can be repeated"),
    "with": ([], "PACKAGE", "install a package first (polars, httpx>=0.27, npm:lodash@4); can be repeated"),
    "no-script-packages": (False, "", "leave out the packages that a block (PEP 723) at the top of the script names"),
    "network": ([], "HOST", "let it reach a host, *.HOST, HOST:PORT, packages or public; can be repeated"),
    "secret": ([], "NAME@HOST", "let it use your shell's variable NAME for a host, unseen; can be repeated"),
    "isolation": (AUTO, "ISOLATION", f"where it runs: {', '.join(ISOLATIONS)} (default {AUTO})"),
    "url": ("", "URL", "run it on the server at this address (default CLOCHE_URL, else on this host)"),
    "api-key": ("", "KEY", "the key for that server (default CLOCHE_API_KEY)"),
    "json": (False, "", "print the result as JSON, at the end"),
    "stats": (False, "", "say what the run used, on standard error"),
    "tty": (False, "", "give the program a terminal, even if standard output is none"),
    "no-tty": (False, "", "give the program pipes, even if standard output is a terminal"),
    "save": (False, "", "write the outputs of a notebook's cells back into its file"),
    "out": ("", "DIR", "copy the files that the program leaves in /sandbox/output to this folder, and list them"),
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
    command.add_argument(
        "-l",
        "--language",
        metavar="LANGUAGE",
        help="by default told from FILE's name or the code; python in case of doubt",
    )
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
    if arguments.file is not None and arguments.code is None and arguments.file.endswith(".ipynb"):
        return _run_notebook(arguments)
    if arguments.save_:
        raise InvalidRun("--save is for notebooks.", hint="Name a file that ends in .ipynb.")
    if arguments.file is not None and arguments.code is None and os.path.isdir(arguments.file):
        from cloche.cli.project_folder import read_project

        project, language, entry = read_project(arguments.file, arguments.language, arguments.entry_ or None)
        code, takes_stdin = _text(project[entry]), True
    else:
        code, language, takes_stdin = _program(arguments)
        project, entry = {}, None
    if language != "python":
        from cloche.cli import head_start

        head_start.abandon()
    isolation = arguments.isolation_
    place = place_for(arguments.url_ or None, arguments.api_key_ or None, isolation, None)
    terminal = None
    if not arguments.json_ and (arguments.tty_ or (os.isatty(1) and not arguments.no_tty_)):
        from cloche.cli.terminal import callers_terminal

        terminal = callers_terminal(arguments.tty_, is_whole=place.takes_whole_jobs)
    limits = Limits.of(**_limits(arguments))
    env, mounts, copied, environment = _given(arguments)
    job = checked_job(
        code,
        limits,
        language=language,
        entry=entry,
        args=arguments.args,
        env=env,
        files=project,
        other_files=copied,
        check=arguments.check_,
        mounts=mounts,
        network=_network(arguments),
        packages=_packages(arguments, code, language, is_here=not place.takes_whole_jobs),
        environment=environment,
        is_interactive=takes_stdin,
        is_counted=arguments.json_ or arguments.stats_,  # asking the wall takes half a millisecond
        is_last=not arguments.out_,
        terminal=None if terminal is None else terminal.size,
        terminal_streams=() if terminal is None else terminal.streams,
    )
    take_files = None
    if arguments.out_:
        from cloche.cli.output_files import OutputFolder

        output = OutputFolder(arguments.out_, {**project, **dict(job.files)})

        def take_files(box: Any) -> None:
            output.fill(box.files)

    def started(process: Process, box: Any) -> None:
        gc.freeze()
        gc.enable()  # main.py has switched it off for the start; the rest may take long
        pass_interrupts_on(process, box.let_go, terminal)
        if takes_stdin:
            feed(process)

    def show(event: Event) -> None:
        if terminal is not None and isinstance(event, Started):
            terminal.begin()
        elif terminal is not None and isinstance(event, Output) and event.kind == "stdout":
            event = Output(event.kind, terminal.shown(event.data))
        show_output(event)

    # This process ends at once.  The default wall cleans up by itself; another may do so by a thread of this process.
    try:
        result = execute(
            place, job, started, None if arguments.json_ else show, waits=isolation != AUTO, before_end=take_files
        )
    except Gone as problem:
        if environment is None:
            raise
        raise Gone(problem.message, f"{problem.hint} A variable for the program is written --env K=V.") from problem
    finally:
        if terminal is not None:
            terminal.end()
    kind = None
    if result.error is not None:
        from cloche.model.kinds import kind_of  # most programs end well, and need not wait for it

        kind = kind_of(result.error.kind)
    _report(result, arguments, is_silent=kind is not None and kind.is_silent)
    if arguments.out_:
        output.report()
    return result.exit_code if kind is None or kind.exit_code is None else kind.exit_code


def _run_notebook(arguments: Namespace | Arguments) -> int:
    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.cli import notebooks
    from cloche.cli.output_files import OutputFolder

    notebooks.check_options(arguments)
    notebook = notebooks.Notebook(arguments.file, arguments.language)
    output = OutputFolder(arguments.out_, {}) if arguments.out_ else None
    env, mounts, copied, environment = _given(arguments)
    where: dict[str, Any] = {
        "url": arguments.url_ or None,
        "api_key": arguments.api_key_ or None,
        "isolation": arguments.isolation_,
    }
    where["environment"] = environment
    gc.enable()
    policy, packages = _network(arguments), arguments.with_ or None
    with Sandbox(**_limits(arguments), env=env, mounts=mounts, network=policy, packages=packages, **where) as box:
        notebooks.copy_in(box, copied)
        code = notebooks.run(notebook, box, output, arguments.save_)
        if output is not None:
            notebooks.take_files(box, output)
    if output is not None:
        output.report()
    return code


def _limits(arguments: Namespace | Arguments) -> dict[str, Any]:
    return {row.name: getattr(arguments, _attribute(row.name)) for row in LIMITS}


def _network(arguments: Namespace | Arguments) -> Network | None:
    if not arguments.network_ and not arguments.secret_:
        return None
    from cloche.cli.network import policy  # a cold start without these options has no time for it

    return policy(arguments.network_, arguments.secret_)


def _packages(arguments: Namespace | Arguments, code: str, language: str, is_here: bool) -> list[str] | None:
    if language != "python" or arguments.no_script_packages_ or "# /// script" not in code:
        return arguments.with_ or None
    from cloche.cli.script_packages import packages_of

    return [*arguments.with_, *packages_of(code, is_here)]


def _given(
    arguments: Namespace | Arguments,
) -> tuple[dict[str, str], dict[str, str], dict[str, bytes], str | None]:
    """The variables, the mounts, the contents of the files to copy in, and the name of the environment."""
    names = [text for text in arguments.env_ if "=" not in text]  # no environment has = in its name
    if len(names) > 1:
        raise InvalidRun("--env names two environments.", hint="Name one. A variable is written K=V.")
    env = dict(_pair(text, "--env", "K=V", "=") for text in arguments.env_ if "=" in text)
    mounts = dict(_pair(text, "--mount", "SRC:DEST") for text in arguments.mount_)
    copied = [_pair(text, "--file", "SRC:DEST") for text in arguments.file_]
    return env, mounts, {target: _read(source) for source, target in copied}, names[0] if names else None


def _program(arguments: Namespace | Arguments) -> tuple[str, str, bool]:
    """The source, its language, and whether standard input is left for the program."""
    if arguments.code is not None:
        return arguments.code, arguments.language or _language_of_text(arguments.code), True
    if arguments.file is None:
        raise InvalidRun("There is nothing to run.", hint="Name a file, give a program with -c, or pass it in with -.")
    if arguments.file == "-":
        source = sys.stdin.buffer.read()
        _check_is_text(source, "standard input", arguments)
        code = _text(source)
        return code, arguments.language or _language_of_text(code), False
    source = _read(arguments.file)
    _check_is_text(source, arguments.file, arguments)
    code = _text(source)
    return code, arguments.language or _language_of(arguments.file, code), True


def _check_is_text(source: bytes, name: str, arguments: Namespace | Arguments) -> None:
    if b"\0" in source and not arguments.language:
        from cloche.cli.not_a_program import binary

        raise binary(name, source)


def _language_of(file: str, code: str) -> str:
    if file.endswith(".py"):
        return "python"  # without asking: most are, and a cold start has no time to lose
    from cloche.languages.detection import detect

    guess = detect(code, file=file)
    if not guess.language:
        from cloche.cli.not_a_program import check_may_be_one

        check_may_be_one(file, code, guess.why)
    return guess.language or "python"


def _language_of_text(code: str) -> str:
    """Choose the language of code that has no file: Python, unless the code says otherwise."""
    from cloche.languages.detection.python_syntax import is_plainly_python

    if is_plainly_python(code):
        return "python"  # nearly always, and a cold start has no time to lose
    from cloche.cli.languages_of_text import detected

    return detected(code)


def _text(source: bytes) -> str:
    return source.decode("utf-8", "surrogateescape")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise InvalidRun(f"{path} cannot be read: {problem.strerror}.") from problem


def _pair(text: str, option: str, shape: str, separator: str = ":") -> tuple[str, str]:
    first, found, second = text.partition(separator)
    if not found or not first or (separator == ":" and not second):
        raise InvalidRun(f"{option} {text!r} is not of the form {shape}.")
    return first, second


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
