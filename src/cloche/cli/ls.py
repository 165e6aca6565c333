"""`cloche ls`: lists the sandboxes on a server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from cloche.blocking.client.sandboxes import SandboxOnServer, ServerSandboxes
    from cloche.model.result import Usage

    Look = tuple[Usage | None, list[str]]

_LOOKED_AT = 200  # living sandboxes that are asked what they use: the newest
_AT_ONCE = 16  # requests in flight
_COLUMNS = ("id", "name", "age", "left", "contexts", "state", "CPU", "memory")
_NOTHING = "-"
_STYLES = {"alive": "green", "paused": "yellow", "lost": "red"}


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import servers

    parser = commands.add_parser(
        "ls",
        help="list the sandboxes on a server",
        description="Lists the living sandboxes on a server, newest first: id, name, age, the life that is left, "
        "contexts, state, CPU time and memory.",
        **shape,
    )
    parser.add_argument("--all", action="store_true", help="also those that have ended")
    parser.add_argument("--json", action="store_true", help="print JSON, with whole ids")
    servers.add_options(parser)


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers

    place = servers.sandboxes(arguments)
    found = place.all("" if arguments.all else "alive")
    looks = _looks(place, found)
    if arguments.json:
        _print_json(found, looks)
    elif not found:
        _say_that_none_is_there(arguments.all)
    else:
        _print_table(found, looks)
    return 0


def _looks(place: ServerSandboxes, found: list[SandboxOnServer]) -> dict[str, Look]:
    """What the living sandboxes use, by id."""
    from functools import partial

    from cloche.blocking.io.tasks import at_once

    looks: dict[str, Look] = {}
    asked = [each.id for each in found if each.state == "alive" and not each.paused][:_LOOKED_AT]
    for begin in range(0, len(asked), _AT_ONCE):
        some = asked[begin : begin + _AT_ONCE]
        looks.update(zip(some, at_once([partial(place.look, identity) for identity in some]), strict=True))
    return looks


def _print_json(found: list[SandboxOnServer], looks: dict[str, Look]) -> None:
    from json import dumps

    rows = []
    for each in found:
        usage, contexts = looks.get(each.id, (None, []))
        row = {**each.as_dict(), "name": each.name, "usage": None if usage is None else usage.as_dict()}
        rows.append({**row, "contexts": contexts})
    print(dumps(rows, indent=2))  # in ASCII: what is in names cannot reach the terminal


def _say_that_none_is_there(of_all: bool) -> None:
    """Say so on standard error: a script that counts lines must not count the sentence."""
    import sys

    ended = "" if of_all else ", and `cloche ls --all` lists those that have ended"
    print(f"There are no {'' if of_all else 'living '}sandboxes.  `cloche shell` makes one{ended}.", file=sys.stderr)


def _print_table(found: list[SandboxOnServer], looks: dict[str, Look]) -> None:
    import sys
    from time import time

    now = time()
    rows = [_row(each, looks.get(each.id, (None, [])), now) for each in found]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
        for row in [_COLUMNS, *rows]:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, no_wrap=name in ("id", "age", "left", "state"))
    for row in rows:
        cells = [Text(cell) for cell in row]
        cells[_COLUMNS.index("state")].stylize(_STYLES.get(row[_COLUMNS.index("state")], "dim"))
        table.add_row(*cells)
    Console(highlight=False).print(table)


def _row(each: SandboxOnServer, look: Look, now: float) -> tuple[str, ...]:
    from cloche.cli.printable import printable
    from cloche.results.values import seconds, size

    usage, contexts = look
    is_alive = each.state == "alive"
    left = _NOTHING if not is_alive or each.expires is None else span(each.expires - now)
    more = ", …" if len(contexts) > 3 else ""
    return (
        each.short_id,
        printable(each.name, 30) or _NOTHING,
        span(now - each.created),
        left,
        printable(", ".join(contexts[:3]), 40) + more or _NOTHING,
        "paused" if is_alive and each.paused else printable(each.state, 20),
        _NOTHING if usage is None else seconds(usage.cpu_time),
        _NOTHING if usage is None else f"{size(usage.memory)} of {size(int(each.limits.get('memory', 0)))}",
    )


def span(duration: float) -> str:
    """Return a time for a person, in its largest unit."""
    for unit, factor in (("d", 86400), ("h", 3600), ("min", 60)):
        if duration >= 2 * factor:
            return f"{int(duration // factor)} {unit}"
    return f"{max(int(duration), 0)} s"
