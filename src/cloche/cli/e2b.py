"""`cloche e2b`: sets the environment variables that make E2B's clients use a Cloche server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    from argparse import REMAINDER

    from cloche.cli import servers

    parser = commands.add_parser(
        "e2b",
        help="make E2B's clients use a Cloche server",
        description="Prints the environment variables that make E2B's clients use a Cloche server, or runs a command "
        "with these variables set.  The server is the one on this host, unless --url or CLOCHE_URL names another.",
        **shape,
    )
    servers.add_options(parser)
    parser.add_argument("words", nargs=REMAINDER, metavar="-- COMMAND", help="command to run with the variables set")


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers

    url, key = servers.address(arguments)
    if not key:
        from cloche.errors import Misconfigured

        raise Misconfigured(f"The key of {url} is not known.", hint="Set CLOCHE_API_KEY, or pass --api-key.")
    variables = _variables(url, key)
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if words:
        return _run(words, variables)
    from shlex import quote

    for name, value in variables.items():
        print(f"export {name}={quote(value)}")
    return 0


def _variables(url: str, key: str) -> dict[str, str]:
    # Older clients accept only keys that look like E2B's, so ours is written in that form; the server accepts both.
    shown = key if key.startswith("e2b_") else f"e2b_{key.encode().hex()}"
    return {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_VOLUME_API_URL": url, "E2B_API_KEY": shown}


def _run(words: list[str], variables: dict[str, str]) -> int:
    import os

    from cloche.errors import InvalidRun

    unset = ("E2B_DEBUG", "E2B_DOMAIN", "E2B_ACCESS_TOKEN")  # they would send the client to another server
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    try:
        os.execvpe(words[0], words, {**environment, **variables})
    except OSError as problem:
        raise InvalidRun(f"{words[0]} cannot be run: {problem.strerror}.") from None
