"""Finds the addresses of the registry that Cargo uses by default.

No command of Cargo prints them.  So Cargo is asked for a package, through a proxy that only notes for which host Cargo
wants a connection.  The registry's own settings then say where its packages are.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import urllib.request
from tempfile import TemporaryDirectory

_PATIENCE_S = 10.0
_FETCH_S = 5.0
_MOST = 64 << 10
_PROJECT = '[package]\nname = "question"\nversion = "0.0.0"\n[lib]\npath = "lib.rs"\n[dependencies]\nserde = "*"\n'


def user_home() -> str:
    """The folder in which Cargo has the settings of the user who runs Cloche."""
    return os.environ.get("CARGO_HOME") or os.path.expanduser("~/.cargo")


def addresses() -> list[str]:
    """The addresses of the index and of the packages; none if this host has no Cargo."""
    host = _wanted_host()
    return described(f"https://{host}") if host else []


def described(index: str) -> list[str]:
    """The address of an index, and that of its packages, which its own settings give."""
    index = index.rstrip("/")
    try:
        with urllib.request.urlopen(f"{index}/config.json", timeout=_FETCH_S) as answer:
            packages = json.loads(answer.read(_MOST)).get("dl", "")
    except (OSError, ValueError, AttributeError):
        return [index]  # a later look may find more
    return [index, packages] if isinstance(packages, str) else [index]


def _wanted_host() -> str:
    """The host and port that Cargo wants to connect to."""
    try:
        with TemporaryDirectory(prefix="cloche-cargo-") as folder, socket.create_server(("127.0.0.1", 0)) as proxy:
            with open(f"{folder}/Cargo.toml", "w", encoding="utf-8") as manifest:
                manifest.write(_PROJECT)
            with open(f"{folder}/lib.rs", "wb"):
                pass
            variables = {
                "CARGO_HOME": _home_with_settings(folder),
                "CARGO_HTTP_PROXY": f"http://127.0.0.1:{proxy.getsockname()[1]}",
                "CARGO_NET_RETRY": "0",
                "CARGO_NET_OFFLINE": "false",
                "RUSTUP_AUTO_INSTALL": "0",
            }
            with subprocess.Popen(
                ["cargo", "fetch", "--quiet"],
                cwd=folder,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as cargo:
                try:
                    return _asked_of(proxy) if _comes(proxy, cargo.pid) else ""
                finally:
                    cargo.kill()
    except OSError:
        return ""


def _home_with_settings(folder: str) -> str:
    """A home for Cargo, which would write into the user's own: it has the user's settings, and no credentials."""
    home = os.path.join(folder, "home")
    os.mkdir(home)
    for name in ("config.toml", "config"):
        try:
            shutil.copyfile(os.path.join(user_home(), name), os.path.join(home, name))
        except OSError:
            pass  # there are none
    return home


def _comes(proxy: socket.socket, pid: int) -> bool:
    """Wait for a connection; return whether there is one before the process ends."""
    end = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([proxy.fileno(), end], [], [], _PATIENCE_S)
        return proxy.fileno() in ready
    finally:
        os.close(end)


def _asked_of(proxy: socket.socket) -> str:
    proxy.settimeout(_PATIENCE_S)
    with proxy.accept()[0] as connection:
        connection.settimeout(_PATIENCE_S)
        head = b""
        while b"\r\n" not in head and len(head) < _MOST and (piece := connection.recv(4096)):
            head += piece
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
    method, _, rest = head.partition(b" ")
    return rest.partition(b" ")[0].decode("ascii", "replace") if method == b"CONNECT" else ""
