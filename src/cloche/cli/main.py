"""`cloche`: finds the command and calls it.

The imports are where they are needed, and a nursery is started before anything else is looked at: `cloche run` from a
shell has to be quick although nothing is running yet.
"""

from __future__ import annotations

import sys

from cloche import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any, NoReturn

COMMANDS = ("run", "serve", "new", "languages", "doctor", "config", "key", "mcp", "e2b")
OWN_FAILURE = 125  # not the program's exit code but ours, as with `docker run`


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.flags.no_site:
        _SitePackages.wait() if words[:1] == ["run"] else _SitePackages.add()
    if words[:1] == ["run"] and not {"-h", "--help"} & set(words) and not _is_for_a_server(words):
        import gc

        from cloche import bundles

        gc.disable()  # what we import stays: looking for garbage in it costs a millisecond, and another in the keeper
        bundles.load("start")
        from cloche.cli import head_start

        if _is_python(words):
            head_start.begin()
        else:
            head_start.prepare()
    from cloche.errors import ClocheError

    try:
        arguments = _plain(words) or parser(words).parse_args(words)
        code: int = _module(arguments.command).main(arguments)
        if arguments.command == "run" and argv is None:
            _leave_at_once(code)
        return code
    except ClocheError as problem:
        complain(problem.message, problem.hint)
        return OWN_FAILURE
    except BrokenPipeError:
        return OWN_FAILURE  # whoever read our output has gone
    except KeyboardInterrupt:
        return 130


class _SitePackages:
    """Makes up for a start without `site` (scripts/command.py): at once, or when a package is looked for."""

    @classmethod
    def wait(cls) -> None:
        """Add them when something is not found elsewhere."""
        sys.meta_path.append(cls)

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Asked last, by any import."""
        sys.meta_path.remove(cls)
        cls.add()
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, path, target)

    @staticmethod
    def add() -> None:
        """Do what Python does when it starts."""
        import site

        site.main()


def _is_for_a_server(words: Sequence[str]) -> bool:
    """Then nothing has to be started here.  Only a guess: settings.py and the options say later."""
    from os import environ

    return "CLOCHE_URL" in environ or any(word.startswith("--url") for word in words)


def _plain(words: Sequence[str]) -> Any:
    return _module("run").plain(words) if words[:1] == ["run"] else None


def _leave_at_once(code: int) -> NoReturn:
    """End without taking the interpreter apart; the nursery notices, and cleans up while the shell goes on."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser; only the command that was called gets its options, unless help is asked for."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            complain(message[:1].upper() + message[1:] + ".", f"See `{self.prog} --help`.")
            sys.exit(2)

    # Each option asks for a formatter; one with a width of its own does not import half of the library to find it out.
    wants_help = bool({"-h", "--help"} & set(words)) or not words
    shape: dict[str, Any] = {"formatter_class": lambda prog: argparse.HelpFormatter(prog, width=100)}
    if wants_help:
        from rich_argparse import RichHelpFormatter

        shape["formatter_class"] = RichHelpFormatter
    top = Parser(
        prog="cloche", description="Runs untrusted code under glass: you see everything, nothing gets out.", **shape
    )
    top.add_argument("--version", action="version", version=f"cloche {__version__}", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, prog="cloche", parser_class=Parser)
    for name in COMMANDS:
        if wants_help or name in words[:1] or words[0] not in COMMANDS:
            _module(name).add(commands, shape)
    if not words:
        top.print_help()
        sys.exit(0)
    return top


def complain(message: str, hint: str = "") -> None:
    """Say on standard error what went wrong and what to do."""
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True, highlight=False).print(
            f"[bold red]cloche:[/] {_escaped(message)}", _escaped(hint), sep="\n"
        )
    else:
        print(f"cloche: {message}" + (f"\n{hint}" if hint else ""), file=sys.stderr)


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")


def _module(name: str) -> ModuleType:
    return __import__(f"cloche.cli.{name}", fromlist=["main"])


def _is_python(words: list[str]) -> bool:
    """Is it plain, before the command line is read, that no other language's tools are needed?"""
    if any(word.startswith(("-l", "--language")) for word in words):
        return False
    return "-c" in words or "-" in words or any(word.endswith(".py") for word in words)


if __name__ == "__main__":
    sys.exit(main())
