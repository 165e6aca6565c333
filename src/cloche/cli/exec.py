"""`cloche exec`: runs a command in a sandbox on a server, attached to the caller's terminal or pipes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from cloche.blocking.client.sandbox import ServerSandbox

_FLAGS = {"-i": "i", "--interactive": "i", "-t": "t", "--tty": "t", "-it": "it", "-ti": "it"}


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import servers

    parser = commands.add_parser(
        "exec",
        help="run a command in a sandbox on a server",
        description="Runs a command in a living sandbox on a server, passes its output on as it happens, and exits "
        "with its exit code.",
        **shape,
    )
    parser.add_argument("-i", "--interactive", action="store_true", help="pass standard input on to the command")
    parser.add_argument("-t", "--tty", action="store_true", help="give the command a terminal")
    servers.add_options(parser)
    parser.add_argument("sandbox", metavar="SANDBOX", help="id, the beginning of an id, or name")
    parser.add_argument("words", nargs="...", metavar="[--] COMMAND", help="the command and its arguments")


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers
    from cloche.errors import InvalidRun

    words, flags = list(arguments.words), "i" * arguments.interactive + "t" * arguments.tty
    while words and words[0] in _FLAGS:
        flags += _FLAGS[words.pop(0)]
    if words[:1] == ["--"]:
        del words[0]
    elif words and words[0].startswith("-"):
        raise InvalidRun(
            f"The option {words[0]:.100} comes too late.", "Options except -i and -t stand before SANDBOX."
        )
    if not words:
        raise InvalidRun("There is no command to run.", hint="`cloche shell` opens a shell.")
    place = servers.sandboxes(arguments)
    box = place.box(place.find(arguments.sandbox).id)
    return run(box, words, takes_input="i" in flags, has_terminal="t" in flags)


def run(box: ServerSandbox, words: Sequence[str], *, takes_input: bool, has_terminal: bool) -> int:
    """Run a command to its end; return the exit code."""
    from cloche.blocking.sandbox.commands import Commands
    from cloche.cli.attached import feed, pass_interrupts_on, show_output
    from cloche.cli.main import complain
    from cloche.cli.terminal import callers_terminal
    from cloche.model.events import Output
    from cloche.model.kinds import kind_of

    terminal = callers_terminal(True, is_whole=True) if has_terminal else None
    size = (80, 24) if terminal is None else terminal.size
    process = Commands(box.programs).start(words, pty=has_terminal, size=size, stdin=takes_input)
    try:
        if terminal is not None and takes_input:
            terminal.begin()
        pass_interrupts_on(process, process.kill, terminal)
        if takes_input:
            feed(process)
        for event in process:
            if terminal is not None and isinstance(event, Output):
                event = Output(event.kind, terminal.shown(event.data))
            show_output(event)
    except BaseException:
        process.give_up()  # nobody is left to read its output
        raise
    finally:
        if terminal is not None:
            terminal.end()
    result = process.wait()
    kind = None if result.error is None else kind_of(result.error.kind)
    if result.error is not None and kind is not None and kind.is_silent:
        complain(f"{result.error.kind}: {result.error.message}", result.error.hint)
    return result.exit_code if kind is None or kind.exit_code is None else kind.exit_code
