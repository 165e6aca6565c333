"""`cloche mcp`: Cloche for a model, over stdio; and how clients learn of it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import Any

_NAMES = ("claude", "claude-code", "cursor", "vscode", "windsurf", "gemini")


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "mcp",
        help="serve a model over stdio, or set a client up for it",
        description="Speaks MCP on standard input and output.  Sandboxes are this host's and end with it; with --url "
        "or CLOCHE_URL, they are a server's.",
        **shape,
    )
    _add_server(parser)
    actions = parser.add_subparsers(dest="action", metavar="install", prog="cloche mcp")
    install = actions.add_parser(
        "install",
        help="write a client's configuration",
        description="Adds Cloche to the configuration of an MCP client.  What would change is shown first.",
        **shape,
    )
    install.add_argument("--client", required=True, choices=_NAMES, metavar="NAME", help=", ".join(_NAMES))
    install.add_argument("--project", action="store_true", help="for the project in this folder, not for all")
    install.add_argument("--name", default="cloche", help="what the client will call it")
    install.add_argument("--print", action="store_true", dest="only_print", help="print the entry, change nothing")
    install.add_argument("--yes", action="store_true", help="do not ask")
    _add_server(install)


def _add_server(parser: argparse.ArgumentParser) -> None:
    import argparse

    # Given before or after `install`: what is not given there must not overwrite what was given before.
    parser.add_argument(
        "--url", default=argparse.SUPPRESS, help="address of a server whose sandboxes are used (CLOCHE_URL)"
    )
    parser.add_argument(
        "--api-key", default=argparse.SUPPRESS, metavar="KEY", help="the key for it; better: CLOCHE_API_KEY"
    )


def main(arguments: argparse.Namespace) -> int:
    """Serve, or install; the exit code."""
    from cloche import settings

    known = settings.load()
    url = str(getattr(arguments, "url", known.url) or "").rstrip("/").removesuffix("/mcp")
    key = str(getattr(arguments, "api_key", known.api_key) or "")
    if url:
        _check(url)
    if arguments.action == "install":
        return _install(arguments, url, key)
    import gc

    gc.disable()  # nothing of what is loaded is garbage
    from cloche.doors import logs
    from cloche.doors.mcp import bridge, stdio

    gc.freeze()
    gc.enable()
    logs.begin("warning", "text")
    return bridge.serve(url, key or _own_key(url)) if url else stdio.serve()


def _install(arguments: argparse.Namespace, url: str, key: str) -> int:
    import json
    import os
    from pathlib import Path

    from cloche.cli import mcp_clients

    client = mcp_clients.CLIENTS[arguments.client]
    key = key or (_own_key(url) if url else "")
    if url and not key:
        print("No key is known for this server, so the entry has none: give it as CLOCHE_API_KEY.", file=sys.stderr)
    entry = client.entry(_command(), url, key)
    if arguments.only_print:
        print(json.dumps({client.key: {arguments.name: entry}}, indent=2, ensure_ascii=False))
        return 0
    place = mcp_clients.Place.here(sys.platform, dict(os.environ), Path.cwd())
    path = client.file(place, arguments.project)
    before, told = mcp_clients.read(path)
    after = mcp_clients.merged(path, told, client.key, arguments.name, entry)
    if told.get(client.key, {}).get(arguments.name) == entry:
        print(f"{path} has it already.")
        return 0
    _show(path, before, after)
    if not arguments.yes and not _agreed(client.title):
        print("Nothing was changed.")
        return 1
    backup = mcp_clients.write(path, after)
    print(f"Written: {path}" + (f"\nAs it was: {backup}" if backup else ""))
    print(f"Start {client.title} again, or have it read its configuration anew.")
    return 0


def _show(path: Path, before: str, after: str) -> None:
    """What would change, without the key."""
    from difflib import unified_diff

    old = "" if not before else str(path)
    changes = unified_diff(before.splitlines(), after.splitlines(), old or "(no file yet)", str(path), lineterm="", n=2)
    for line in changes:
        print(_masked(line))


def _masked(line: str) -> str:
    import re

    return re.sub(r'("Authorization": "Bearer |"CLOCHE_API_KEY": ")[^"]+', r"\1…", line)


def _agreed(title: str) -> bool:
    from cloche.errors import InvalidRun

    if not sys.stdin.isatty():
        raise InvalidRun("There is nobody to ask, so nothing was changed.", hint="Say --yes.")
    return input(f"Write this for {title}? [y/N] ").strip().lower() in ("y", "yes")


def _command() -> list[str]:
    """How to start Cloche from anywhere."""
    from pathlib import Path

    script = Path(sys.executable).with_name("cloche.exe" if sys.platform == "win32" else "cloche")
    return [str(script)] if script.exists() else [sys.executable, "-m", "cloche.cli.main"]


def _own_key(url: str) -> str:
    """The key of the server on this host, if the address is this host's and its data directory is the usual one."""
    from urllib.parse import urlsplit

    if urlsplit(url).hostname not in ("127.0.0.1", "localhost", "::1"):
        return ""
    from cloche.configuration import load
    from cloche.errors import ClocheError
    from cloche.policy import key_file

    try:
        return key_file.read(load().value.data_dir / "key", of_anybody=True) or ""
    except ClocheError:
        return ""


def _check(url: str) -> None:
    from urllib.parse import urlsplit

    from cloche.errors import InvalidRun

    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidRun(f"{url!r:.200} is not the address of a server.", hint="Write it as http://127.0.0.1:7500.")
