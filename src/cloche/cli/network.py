"""The options `--network` and `--secret` of commands that make sandboxes."""

from __future__ import annotations

from cloche import settings
from cloche.errors import InvalidRun
from cloche.model.network import Network, network_of
from cloche.model.secret import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HELP = {
    "network": "let it reach a host (or *.HOST, HOST:PORT, an address range, packages, public); can be repeated",
    "secret": "let it use the variable NAME of your shell for a host, and never see its value; can be repeated",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add both options."""
    parser.add_argument("--network", metavar="HOST", action="append", default=[], help=HELP["network"])
    parser.add_argument("--secret", metavar="NAME@HOST", action="append", default=[], help=HELP["secret"])


def policy(hosts: Sequence[str], secrets: Sequence[str]) -> Network:
    """The policy that the options mean; the hosts of secrets are allowed as well."""
    if list(hosts) == ["none"] and not secrets:
        return network_of("none")
    found: dict[str, list[str]] = {}
    for text in secrets:
        name, separator, host = text.partition("@")
        if not separator or not name or not host or "=" in name:
            raise InvalidRun(
                "--secret is not of the form NAME@HOST.",
                hint="NAME is a variable of your shell that has the value; values on a command line are visible.",
            )
        found.setdefault(name, []).extend(filter(None, host.split(",")))
    values = {name: Secret(_value(name), named) for name, named in found.items()}
    named = (host for secret in values.values() for host in secret.hosts)
    return Network(allow=[*hosts, *named], secrets=values)


def _value(name: str) -> str:
    value = settings.variable(name)
    if not value:
        raise InvalidRun(
            f"Your shell has no variable {name} for the secret.", hint=f"Set it first: read -rs {name}; export {name}"
        )
    return value
