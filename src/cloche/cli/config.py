"""`cloche config`: prints the server's effective configuration and the source of each value."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from cloche.configuration import Loaded


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "config",
        help="show the server's configuration and where each value comes from",
        description="Prints the configuration that `cloche serve` would use here, and the source of each value: a "
        "flag, the environment, a file or the default, in this order of precedence.  Passwords are not printed.",
        **shape,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_flags(parser)


def main(arguments: argparse.Namespace) -> int:
    import sys

    from cloche.cli.main import complain
    from cloche.configuration import load_arguments

    loaded = load_arguments(arguments)
    if arguments.json:
        _print_json(loaded)
    elif sys.stdout.isatty():
        _print_table(loaded)
    else:
        _print_lines(loaded)
    for name, meant in loaded.strangers.items():
        complain(f"{name} is not a setting.", f"Did you mean {meant}?")
    return 0


def _print_json(loaded: Loaded) -> None:
    from json import dumps

    settings = {name: {"value": value, "source": loaded.sources[name]} for name, value in loaded.shown().items()}
    print(dumps(settings, indent=2, ensure_ascii=False))


def _print_lines(loaded: Loaded) -> None:
    rows = _rows(loaded)
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, source in rows:
        print(f"{name:{names}}  {value:{values}}  {source}")


def _print_table(loaded: Loaded) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for name, value, source in _rows(loaded):
        style = "dim" if source == "default" else "green"
        table.add_row(Text(name), Text(value), Text(source, style=style))
    Console(highlight=False).print(table)


def _rows(loaded: Loaded) -> list[tuple[str, str, str]]:
    from cloche.configuration import value_text

    return [(name, value_text(name, value), loaded.sources[name]) for name, value in loaded.shown().items()]
