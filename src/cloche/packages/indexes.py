"""The package indexes that this host's own tools use: found by asking the tools, and never written down here."""

from __future__ import annotations

import os
import subprocess
import sys
from _thread import allocate_lock, start_new_thread
from time import monotonic
from urllib.parse import urlsplit, urlunsplit

from cloche.model.plain import Plain
from cloche.packages import cargo_registry, maven_repository, npm_configuration

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
for key, value in config.items():  # newer versions have a dictionary for each file
    for inner, text in (value if isinstance(value, dict) else {key: value}).items():
        found[inner.rpartition(".")[2]] = text
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
    pip_hosts: tuple[tuple[str, int], ...] = ()
    npm_hosts: tuple[tuple[str, int], ...] = ()
    cargo: tuple[str, ...] = ()  # the index of crates, and the address of its packages
    cargo_is_replaced: bool = False  # the user's settings name a registry in place of the usual one
    cargo_hosts: tuple[tuple[str, int], ...] = ()
    go_hosts: tuple[tuple[str, int], ...] = ()  # with that of the database of checksums
    go_checksums: str = ""  # GOSUMDB
    maven: str = ""  # the repository that takes the place of all others
    maven_hosts: tuple[tuple[str, int], ...] = ()


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
    pip = [line.partition(" ") for line in _lines_of_pip()]
    by_name = {name: _plain(url) for name, _, url in pip if name != "extra"}
    extra = tuple(_plain(url) for name, _, url in pip if name == "extra")
    registries = npm_configuration.find().registries
    npm, of_scopes = _plain(registries.get("", "")), [_plain(url) for scope, url in registries.items() if scope]
    listed = next(iter(_lines(["go", "env", "GOPROXY"])), "").replace("|", ",").split(",")  # both separate addresses
    go = ",".join(filter(None, map(_plain, listed)))
    uv = os.environ.get("UV_DEFAULT_INDEX", "") or os.environ.get("UV_INDEX_URL", "")
    replaced = _of_cargo()
    cargo = [
        each for each in (cargo_registry.described(replaced[0]) if replaced else cargo_registry.addresses()) if each
    ]
    words = next(iter(_lines(["go", "env", "GOSUMDB"])), "").split()
    checksums = " ".join(_plain(word) if "://" in word else word for word in words)
    go_urls = [*go.split(","), _checksum_address(checksums)]
    maven = _plain(maven_repository.address())
    urls = [*by_name.values(), *extra, npm, *of_scopes, *go_urls, _plain(uv), *replaced, *map(_plain, cargo), maven]
    pip_urls = [*by_name.values(), *extra]
    return PackageIndexes(
        pip=by_name.get("index", ""),
        pip_extra=extra,
        npm=npm,
        go=go,
        hosts=_hosts(urls),
        pip_hosts=_hosts(pip_urls),
        npm_hosts=_hosts([npm, *of_scopes]),
        cargo=tuple(cargo),
        cargo_is_replaced=bool(replaced),
        cargo_hosts=_hosts(map(_plain, cargo)),
        go_hosts=_hosts(go_urls),
        go_checksums=checksums,
        maven=maven,
        maven_hosts=_hosts([maven]),
    )


def _checksum_address(setting: str) -> str:
    """The address of Go's database of checksums: its name, or an address after the name and the key."""
    words = setting.split()
    if not words or words[0] == "off":
        return ""
    return (
        _plain(words[-1]) if len(words) > 1 and "://" in words[-1] else _plain(f"https://{words[0].partition('+')[0]}")
    )


def with_credentials() -> tuple[str, tuple[str, ...]]:
    """The addresses of pip's index and its further indexes, as pip's configuration has them.

    For sandboxes in which only programs of ours run.
    """
    pip = [line.partition(" ") for line in _lines_of_pip()]
    index = next((url for name, _, url in pip if name == "index"), "")
    return index, tuple(url for name, _, url in pip if name == "extra")


_pip_said: tuple[float, list[str]] | None = None


def _lines_of_pip() -> list[str]:
    """What pip says about its configuration; kept for a while, since pip takes half a second to say it."""
    global _pip_said
    if _pip_said is None or monotonic() - _pip_said[0] > _KEEP_S:
        _pip_said = monotonic(), _lines([sys.executable, "-c", _ASK_PIP])
    return _pip_said[1]


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
