"""`cloche kill`: ends sandboxes on a server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import servers

    parser = commands.add_parser(
        "kill",
        help="end sandboxes on a server",
        description="Ends sandboxes on a server, with everything that runs in them, their variables and their files.",
        **shape,
    )
    parser.add_argument("sandboxes", nargs="*", metavar="SANDBOX", help="id, the beginning of an id, or name")
    parser.add_argument("--all", action="store_true", help="all living sandboxes that the key can see")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    servers.add_options(parser)


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers
    from cloche.cli.printable import printable
    from cloche.cli.questions import agreed
    from cloche.errors import InvalidRun

    if bool(arguments.sandboxes) == arguments.all:
        raise InvalidRun("Name the sandboxes to end, or say --all.", hint="`cloche ls` lists them.")
    place = servers.sandboxes(arguments)
    found = place.all() if arguments.all else [place.find(word) for word in arguments.sandboxes]
    found = list({each.id: each for each in found}.values())
    if not found:
        print("No sandboxes.")
        return 0
    names = ", ".join(printable(each.name, 30) or each.short_id for each in found[:5])
    names += f" and {len(found) - 5} more" if len(found) > 5 else ""
    if not arguments.yes and not agreed(f"End {names}, with variables and files?"):
        print("Nothing was ended.")
        return 1
    for each in found:
        place.kill(each.id)
        print(each.id)
    return 0
