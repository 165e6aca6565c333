"""Chooses the server and the key for commands that work on a server, and the sandbox that a command names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from cloche.blocking.client.sandboxes import ServerSandboxes

_SETTINGS = ("host", "port", "data_dir")
_LOCAL = {"0.0.0.0": "localhost", "127.0.0.1": "localhost", "::": "localhost", "::1": "localhost"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which server is meant."""
    from cloche.configuration import add_flags

    parser.add_argument(
        "--url", metavar="URL", help="address of the server (CLOCHE_URL); default: the one on this host"
    )
    parser.add_argument("--api-key", metavar="KEY", help="its key; CLOCHE_API_KEY is safer")
    add_flags(parser, _SETTINGS)


def address(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the server's address and a key for it: as the options say, the environment, or the server on this host."""
    from argparse import Namespace

    from cloche import settings
    from cloche.configuration import load_arguments
    from cloche.errors import Misconfigured
    from cloche.policy import key_file

    known = settings.load()
    url = str(arguments.url or known.url or "").rstrip("/").removesuffix("/mcp")
    key = str(arguments.api_key or known.api_key or "")
    if key and url:
        return url, key
    # Not all of the arguments: another one may have the name of a setting.
    local = load_arguments(Namespace(**{name: getattr(arguments, name) for name in ("config", *_SETTINGS)})).value
    is_named = bool(url)
    if not is_named:
        name = _LOCAL.get(local.host, f"[{local.host}]" if ":" in local.host else local.host)
        url = f"http://{name}:{local.port}"
    if not key and (not is_named or is_local(url)):  # the key of this host's server is for no other
        key = key_file.read(local.data_dir / "key", of_anybody=True) or ""
    if not key and not is_named:
        raise Misconfigured(
            f"There is no key in {local.data_dir}: no server has been started with this data directory yet.",
            hint="Start a server with `cloche serve`, or name another with --url and --api-key.",
        )
    return url, key


def is_local(url: str) -> bool:
    """Return whether an address is one of this host."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False


def sandboxes(arguments: argparse.Namespace) -> ServerSandboxes:
    """Return the sandboxes on the server that the options name."""
    from cloche.blocking.client.sandboxes import ServerSandboxes
    from cloche.blocking.client.server import checked_key, server_at

    url, key = address(arguments)
    return ServerSandboxes(server_at(url, checked_key(key)))
