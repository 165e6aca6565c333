"""`cloche`: finds the command and calls it.

Modules are imported where they are needed, and a nursery is started before anything else, because `cloche run` from a
shell has to be quick although nothing of Cloche is running yet.
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

COMMANDS = (
    *("run", "serve", "setup", "new", "languages", "packages", "env", "doctor", "config", "key"),
    *("ls", "shell", "exec", "cp", "logs", "kill"),
    *("mcp", "e2b", "completion"),
)
OWN_FAILURE = 125  # Cloche itself failed, not the program; as with `docker run`


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.flags.no_site:
        _SitePackages.wait() if words[:1] == ["run"] else _SitePackages.add()
    if words[:1] == ["run"] and not {"-h", "--help"} & set(words) and not _needs_no_nursery(words):
        import gc

        from cloche import bundles

        gc.disable()  # imports leave no garbage; looking for it costs a millisecond here and one in the keeper
        is_bundled = bundles.load("start")
        from cloche.cli import head_start

        if not head_start.is_possible() and not any(word.startswith("--isolation") for word in words):
            failed = _set_up()
            if failed:
                return failed
        if _is_python(words):
            head_start.begin()
        else:
            head_start.prepare()
        if not is_bundled:
            head_start.improve_next()
    from cloche.errors import ClocheError

    try:
        arguments = _plain(words) or parser(words).parse_args(words)
        code: int = _module(arguments.command).main(arguments)
        if arguments.command == "run" and argv is None:
            _leave_at_once(code)
        return code
    except ClocheError as problem:
        from cloche.model.wording import worded

        complain(f"{worded(problem.message, 'cli')} {problem.details}".rstrip(), problem.hint)
        return OWN_FAILURE
    except BrokenPipeError:
        return OWN_FAILURE  # the reader of our output is gone
    except KeyboardInterrupt:
        return 130


class _SitePackages:
    """Adds site-packages after a start without `site` (launcher.py): at once, or at the first failed import."""

    @classmethod
    def wait(cls) -> None:
        sys.meta_path.append(cls)

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Add them; called by an import that found nothing elsewhere."""
        sys.meta_path.remove(cls)
        cls.add()
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, path, target)

    @staticmethod
    def add() -> None:
        import site

        site.main()


def _set_up() -> int:
    """Build the sandboxes' Python environment; return the exit code."""
    from cloche.cli import setup
    from cloche.errors import ClocheError

    try:
        setup.ensure()
    except ClocheError as problem:
        complain(problem.message, problem.hint)
        return OWN_FAILURE
    except KeyboardInterrupt:
        return 130
    return 0


def _needs_no_nursery(words: Sequence[str]) -> bool:
    """Guess whether the run is for a server, or of a notebook, whose sessions need another nursery than a program.

    Settings and options decide later.
    """
    from os import environ

    return "CLOCHE_URL" in environ or any(word.startswith("--url") or word.endswith(".ipynb") for word in words)


def _plain(words: Sequence[str]) -> Any:
    return _module("run").plain(words) if words[:1] == ["run"] else None


def _leave_at_once(code: int) -> NoReturn:
    """Exit without shutting the interpreter down; the nursery notices, and cleans up while the shell goes on."""
    import os

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Build the parser.  Only the chosen command gets its options, unless help is wanted."""
    import argparse

    from cloche.cli.parser import Parser

    # Each option creates a formatter.  With a fixed width it does not import modules to find the terminal's.
    wants_help = bool({"-h", "--help"} & set(words)) or not words
    shape: dict[str, Any] = {"formatter_class": lambda prog: argparse.HelpFormatter(prog, width=100)}
    if wants_help:
        from rich_argparse import RichHelpFormatter

        shape["formatter_class"] = RichHelpFormatter
    top = Parser(
        prog="cloche", description="Runs untrusted code in a sandbox: you see everything, nothing gets out.", **shape
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
    """Write an error to standard error, with a hint in the words of the command line."""
    if hint:
        from cloche.model.wording import worded

        hint = worded(hint, "cli")
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
    """Guess from the raw command line whether the program is Python, so that no other toolchain is needed."""
    if any(word.startswith(("-l", "--language")) for word in words):
        return False
    return "-c" in words or "-" in words or any(word.endswith(".py") for word in words)


if __name__ == "__main__":
    sys.exit(main())
