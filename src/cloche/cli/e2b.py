"""`cloche e2b`: what E2B's clients have to find in their environment to use a Cloche server."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    from argparse import REMAINDER

    from cloche.configuration import add_flags

    parser = commands.add_parser(
        "e2b",
        help="have E2B's clients use a server",
        description="Prints the variables with which E2B's clients use a Cloche server; with a command, runs it with "
        "them set.  The server is the one on this host unless --url or CLOCHE_URL names another.",
        **shape,
    )
    parser.add_argument("--url", help="address of the server (CLOCHE_URL)")
    parser.add_argument("--api-key", metavar="KEY", help="the key for it; better: CLOCHE_API_KEY")
    add_flags(parser, ("host", "port", "data_dir"))
    parser.add_argument("words", nargs=REMAINDER, metavar="-- COMMAND", help="what to run with them set")


def main(arguments: argparse.Namespace) -> int:
    """Print them, or run a command with them; the exit code."""
    variables = _variables(*_server(arguments))
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if words:
        return _run(words, variables)
    from shlex import quote

    for name, value in variables.items():
        print(f"export {name}={quote(value)}")
    return 0


def _server(arguments: argparse.Namespace) -> tuple[str, str]:
    """Its address, and a key for it."""
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
            f"There is no key in {local.data_dir}: no server has been started there yet.",
            hint="Start one with `cloche serve`, or name another with --url and --api-key.",
        )
    return url, key


def _variables(url: str, key: str) -> dict[str, str]:
    # Older clients take only keys that look like E2B's, so ours is shown in that form; the server knows both.
    shown = key if key.startswith("e2b_") else f"e2b_{key.encode().hex()}"
    return {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_VOLUME_API_URL": url, "E2B_API_KEY": shown}


def _run(words: list[str], variables: dict[str, str]) -> int:
    import os

    from cloche.errors import InvalidRun

    unset = ("E2B_DEBUG", "E2B_DOMAIN", "E2B_ACCESS_TOKEN")  # which would lead elsewhere
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    try:
        os.execvpe(words[0], words, {**environment, **variables})
    except OSError as problem:
        raise InvalidRun(f"{words[0]} cannot be run: {problem.strerror}.") from None
