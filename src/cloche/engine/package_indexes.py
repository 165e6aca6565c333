"""The package indexes that this host's own tools use: found by asking the tools, and never written down here."""

from __future__ import annotations

import os
import subprocess
import sys
from _thread import allocate_lock, start_new_thread
from time import monotonic
from urllib.parse import urlsplit, urlunsplit

from cloche.engine import cargo_registry
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_KEEP_S = 300.0
_PATIENCE_S = 20.0
_PORTS = {"https": 443, "http": 80}
# pip knows its default index, and the host that serves its files.
_ASK_PIP = """
import sys
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
found = {}
config = Configuration(isolated=False)
config.load()
for key, value in config.items():
    found[key.rpartition(".")[2]] = value
print("index", found.get("index-url") or PyPI.simple_url)
for url in (found.get("extra-index-url") or "").split():
    print("extra", url)
if not found.get("index-url"):
    print("host", "https://" + PyPI.file_storage_domain)
"""


class PackageIndexes(Plain):
    """The addresses of the host's package indexes, without the credentials in them."""

    pip: str = ""
    pip_extra: tuple[str, ...] = ()
    npm: str = ""
    go: str = ""  # GOPROXY
    hosts: tuple[tuple[str, int], ...] = ()  # of all of them, with their ports


_lock = allocate_lock()
_found: PackageIndexes | None = None
_found_at = 0.0


def find() -> PackageIndexes:
    """The host's package indexes.  The tools are asked once, and then again from time to time, while nobody waits."""
    global _found_at
    with _lock:
        if _found is None:
            _refresh()
        elif monotonic() - _found_at > _KEEP_S:
            _found_at = monotonic()
            start_new_thread(_refresh, ())
        assert _found is not None
        return _found


def known() -> PackageIndexes | None:
    """The host's package indexes if they are known already; otherwise the tools are asked while nobody waits."""
    if _found is None:
        start_new_thread(find, ())
        return None
    return find()


def _refresh() -> None:
    global _found, _found_at
    _found, _found_at = _ask(), monotonic()


def _ask() -> PackageIndexes:
    pip = [line.partition(" ") for line in _lines([sys.executable, "-c", _ASK_PIP])]
    by_name = {name: _plain(url) for name, _, url in pip if name != "extra"}
    extra = tuple(_plain(url) for name, _, url in pip if name == "extra")
    npm = _plain(next(iter(_lines(["npm", "config", "get", "registry"])), ""))
    listed = next(iter(_lines(["go", "env", "GOPROXY"])), "").replace("|", ",").split(",")  # both separate addresses
    go = ",".join(filter(None, map(_plain, listed)))
    uv = os.environ.get("UV_DEFAULT_INDEX", "") or os.environ.get("UV_INDEX_URL", "")
    urls = [*by_name.values(), *extra, npm, *go.split(","), _plain(uv), *_of_cargo()]
    urls += map(_plain, cargo_registry.addresses())
    return PackageIndexes(by_name.get("index", ""), extra, npm, go, _hosts(urls))


def _of_cargo() -> list[str]:
    """The registries in the user's settings of Cargo."""
    from tomllib import TOMLDecodeError, load

    try:
        with open(f"{cargo_registry.user_home()}/config.toml", "rb") as file:
            settings = load(file)
    except (OSError, TOMLDecodeError):
        return []
    tables = [*settings.get("source", {}).values(), *settings.get("registries", {}).values()]
    texts = [each.get(key) for each in tables if isinstance(each, dict) for key in ("registry", "index")]
    return [_plain(text.removeprefix("sparse+")) for text in texts if isinstance(text, str)]


def _lines(command: Sequence[str]) -> list[str]:
    """What a tool prints; nothing if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _plain(url: str) -> str:
    """An address without a user's name and password, which a sandbox must not see."""
    try:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if parts.scheme in _PORTS else ""
    except ValueError:
        return ""


def _hosts(urls: Iterable[str]) -> tuple[tuple[str, int], ...]:
    parts = [urlsplit(url) for url in urls if url]
    found = [(each.hostname, each.port or _PORTS[each.scheme]) for each in parts if each.hostname]
    return tuple(dict.fromkeys(found))
