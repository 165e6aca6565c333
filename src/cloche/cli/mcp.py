"""`cloche mcp`: an MCP server over stdio; `cloche mcp install` adds it to a client's configuration."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from pathlib import Path
    from typing import Any

_NAMES = ("claude", "claude-code", "cursor", "vscode", "windsurf", "gemini")


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "mcp",
        help="give an AI client a sandbox, over MCP",
        description="Serves MCP on standard input and output.  Sandboxes run on this host and end with the command; "
        "with --url or CLOCHE_URL they run on a server.",
        **shape,
    )
    _add_server(parser)
    actions = parser.add_subparsers(dest="action", metavar="install", prog="cloche mcp")
    install = actions.add_parser(
        "install",
        help="add Cloche to a client's configuration",
        description="Adds Cloche to the configuration of an MCP client.  Shows the change and asks before writing it.",
        **shape,
    )
    install.add_argument("--client", required=True, choices=_NAMES, metavar="NAME", help=", ".join(_NAMES))
    install.add_argument("--project", action="store_true", help="only for the project in this folder")
    install.add_argument("--name", default="cloche", help="name of the entry (default: cloche)")
    install.add_argument("--print", action="store_true", dest="only_print", help="print the entry and change nothing")
    install.add_argument("--yes", action="store_true", help="do not ask before writing")
    _add_server(install)


def _add_server(parser: argparse.ArgumentParser) -> None:
    import argparse

    # Both may stand before or after `install`.  A default after it must not overwrite a value before it.
    parser.add_argument(
        "--url", default=argparse.SUPPRESS, help="run sandboxes on the server at this address (CLOCHE_URL)"
    )
    parser.add_argument("--api-key", default=argparse.SUPPRESS, metavar="KEY", help="its key; CLOCHE_API_KEY is safer")


def main(arguments: argparse.Namespace) -> int:
    from cloche import settings

    known = settings.load()
    url = str(getattr(arguments, "url", known.url) or "").rstrip("/").removesuffix("/mcp")
    key = str(getattr(arguments, "api_key", known.api_key) or "")
    if url:
        _check(url)
    if arguments.action == "install":
        return _install(arguments, url, key)
    import gc

    gc.disable()  # imports leave no garbage
    from cloche.doors import logs
    from cloche.doors.mcp import bridge, stdio

    gc.freeze()
    gc.enable()
    logs.begin("warning", "text")
    if url:
        return bridge.serve(url, key or _own_key(url))
    from cloche.cli import setup

    setup.begin()
    return stdio.serve()


def _install(arguments: argparse.Namespace, url: str, key: str) -> int:
    import json
    import os
    from pathlib import Path

    from cloche.cli import mcp_clients
    from cloche.cli.questions import agreed

    client = mcp_clients.CLIENTS[arguments.client]
    key = key or (_own_key(url) if url else "")
    if url and not key:
        print("The key of this server is not known, so the entry has none.  Set CLOCHE_API_KEY.", file=sys.stderr)
    entry = client.entry(_command(), url, key)
    if arguments.only_print:
        print(json.dumps({client.key: {arguments.name: entry}}, indent=2, ensure_ascii=False))
        return 0
    place = mcp_clients.Place.here(sys.platform, dict(os.environ), Path.cwd())
    path = client.file(place, arguments.project)
    before, settings = mcp_clients.read(path)
    after = mcp_clients.merged(path, settings, client.key, arguments.name, entry)
    if settings.get(client.key, {}).get(arguments.name) == entry:
        print(f"{path} already has this entry.")
        return 0
    _show(path, before, after)
    if not arguments.yes and not agreed(f"Write this for {client.title}?"):
        print("Nothing was changed.")
        return 1
    backup = mcp_clients.write(path, after)
    print(f"Wrote {path}" + (f"\nBackup: {backup}" if backup else ""))
    print(f"Restart {client.title}, or reload its configuration.")
    return 0


def _show(path: Path, before: str, after: str) -> None:
    """Print the difference, with the key hidden."""
    from difflib import unified_diff

    old = "" if not before else str(path)
    changes = unified_diff(before.splitlines(), after.splitlines(), old or "(no file yet)", str(path), lineterm="", n=2)
    for line in changes:
        print(_masked(line))


def _masked(line: str) -> str:
    import re

    return re.sub(r'("Authorization": "Bearer |"CLOCHE_API_KEY": ")[^"]+', r"\1…", line)


def _command() -> list[str]:
    """Return the command that starts Cloche from any folder."""
    from pathlib import Path

    script = Path(sys.executable).with_name("cloche.exe" if sys.platform == "win32" else "cloche")
    return [str(script)] if script.exists() else [sys.executable, "-m", "cloche.cli.main"]


def _own_key(url: str) -> str:
    """Return the key of the server on this host, if the address is local and the data directory is the default."""
    from cloche.cli.servers import is_local

    if not is_local(url):
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
        raise InvalidRun(f"{url!r:.200} is not a valid server address.", hint="Write it like http://127.0.0.1:7500.")
