"""`cloche e2b`: sets the environment variables that make E2B's clients use a Cloche server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    from argparse import REMAINDER

    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "e2b",
        help="make E2B's clients use a Cloche server",
        description="Prints the environment variables that make E2B's clients use a Cloche server, or runs a command "
        "with these variables set.  The server is the one on this host, unless --url or CLOCHE_URL names another.",
        **shape,
    )
    parser.add_argument("--url", help="address of the server (CLOCHE_URL)")
    parser.add_argument("--api-key", metavar="KEY", help="its key; CLOCHE_API_KEY is safer")
    add_flags(parser, ("host", "port", "data_dir"))
    parser.add_argument("words", nargs=REMAINDER, metavar="-- COMMAND", help="command to run with the variables set")


def main(arguments: argparse.Namespace) -> int:
    variables = _variables(*_server(arguments))
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if words:
        return _run(words, variables)
    from shlex import quote

    for name, value in variables.items():
        print(f"export {name}={quote(value)}")
    return 0


def _server(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the server's address and a key for it."""
    from cloche import settings
    from cloche.configuration import load_arguments
    from cloche.errors import Misconfigured
    from cloche.policy import key_file

    known = settings.load()
    url = str(arguments.url or known.url or "").rstrip("/").removesuffix("/mcp")
    key = str(arguments.api_key or known.api_key or "")
    local = load_arguments(arguments).value
    if not url:
        host = {"0.0.0.0": "localhost", "127.0.0.1": "localhost", "::": "localhost", "::1": "localhost"}
        name = host.get(local.host, f"[{local.host}]" if ":" in local.host else local.host)
        url = f"http://{name}:{local.port}"
    key = key or (key_file.read(local.data_dir / "key", of_anybody=True) or "")
    if not key:
        raise Misconfigured(
            f"There is no key in {local.data_dir}: no server has been started with this data directory yet.",
            hint="Start a server with `cloche serve`, or name another with --url and --api-key.",
        )
    return url, key


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
