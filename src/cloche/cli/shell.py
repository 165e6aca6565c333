"""`cloche shell`: opens a shell in a sandbox on a server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

# Bash where the sandbox has it: `sh` has no history and no completion.
_SHELL = ("/bin/sh", "-c", "command -v bash > /dev/null && exec bash; exec sh")


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import network, packages, servers

    parser = commands.add_parser(
        "shell",
        help="open a shell in a sandbox on a server",
        description="Opens an interactive shell in a sandbox on a server.  Without SANDBOX it makes a new one, which "
        "ends with the shell.",
        **shape,
    )
    parser.add_argument("sandbox", nargs="?", metavar="SANDBOX", help="id, the beginning of an id, or name")
    parser.add_argument("--keep", action="store_true", help="let the new sandbox live on, and print its id")
    parser.add_argument("--name", metavar="TEXT", help="name of the new sandbox")
    parser.add_argument("--lifetime", metavar="SECONDS", type=float, help="when the new sandbox ends at the latest")
    parser.add_argument("--env", metavar="ENVIRONMENT", help="the environment that the new sandbox starts from")
    network.add_options(parser)
    parser.add_argument("--with", metavar="PACKAGE", action="append", default=[], dest="with_", help=packages.WITH)
    servers.add_options(parser)


def main(arguments: argparse.Namespace) -> int:
    import sys

    from cloche.cli import exec as command
    from cloche.cli import network, servers
    from cloche.errors import InvalidRun
    from cloche.sandbox.checks import checked_packages

    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    has_policy = bool(arguments.network or arguments.secret)
    place = servers.sandboxes(arguments)
    if arguments.sandbox is not None:
        described = (arguments.keep, arguments.name, arguments.lifetime is not None, arguments.with_, arguments.env)
        if has_policy or any(described):
            options = "--keep, --name, --lifetime, --network, --secret, --with and --env"
            raise InvalidRun(f"{options} are for new sandboxes.", "Leave them out, or SANDBOX.")
        box = place.box(place.find(arguments.sandbox).id)
        return command.run(box, _SHELL, takes_input=True, has_terminal=has_terminal)
    policy = network.policy(arguments.network, arguments.secret) if has_policy else None
    box = place.new(
        {"name": arguments.name} if arguments.name else {},
        arguments.lifetime,
        policy,
        checked_packages(arguments.with_),
        arguments.env,
    )
    box.open()
    try:
        return command.run(box, _SHELL, takes_input=True, has_terminal=has_terminal)
    finally:
        if arguments.keep:
            print(f"The sandbox lives on: {box.id}", file=sys.stderr)
        else:
            box.kill()
