"""Reads a list of Node packages that comes out of a sandbox, and makes a lock of it, or refuses it."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from datetime import datetime
from urllib.parse import quote, urlsplit

from cloche.errors import InvalidRun, Refused
from cloche.model.npm_versions import version_key
from cloche.model.packages import JAVASCRIPT, Lock, LockedFile, LockedPackage
from cloche.packages.npm_configuration import hosts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from cloche.packages.npm_configuration import NpmConfiguration
    from cloche.packages.policy import PackagePolicy

_MOST_ENTRIES, _MOST_DEPTH, _LONGEST_NAME = 5000, 30, 214
_PART = r"[A-Za-z0-9~_-][A-Za-z0-9~._-]*"
_NAME = re.compile(rf"(?:@{_PART}/)?{_PART}")
_BITS = {"sha512": 512, "sha384": 384, "sha256": 256, "sha1": 160}  # the strongest first


def lock_of(entries: Iterable[Any], npm: NpmConfiguration, policy: PackagePolicy) -> Lock:
    """Check every field, and return the lock."""
    places: dict[str, dict[str, Any]] = {}
    try:
        for entry in entries:
            place = str(entry["place"])
            if place in places or len(places) >= _MOST_ENTRIES:
                raise _refused(place, "stands twice in the list" if place in places else "is one package too many")
            places[place] = entry
    except (KeyError, TypeError) as problem:
        raise _refused("", f"makes no sense ({problem})") from None
    _check_places(places)
    found: dict[tuple[str, str, str], tuple[dict[str, Any], list[str]]] = {}
    for place, entry in sorted(places.items()):
        found.setdefault(_identity(place, entry), (entry, []))[1].append(place)
    packages = [_package(*identity, entry, where, npm, policy) for identity, (entry, where) in found.items()]
    return Lock(JAVASCRIPT, tuple(sorted(packages, key=lambda each: (each.name, each.version, each.place))))


def file_url(npm: NpmConfiguration, name: str, version: str) -> str:
    """Where a registry keeps a package's file."""
    return f"{npm.registry_of(name)}{quote(name, '@/')}/-/{name.rpartition('/')[2]}-{quote(version)}.tgz"


def _check_places(places: Sequence[str] | dict[str, Any]) -> None:
    spellings: dict[str, str] = {}
    for place in places:
        parts = _parts(place)
        above = place[: -len(f"/node_modules/{parts[-1]}")]
        if len(parts) > 1 and above not in places:
            raise _refused(place, "lies in a package that is not in the list")
        if spellings.setdefault(place.casefold(), place) != place:
            raise _refused(place, f"differs from {spellings[place.casefold()]} only in capital letters")


def _parts(place: str) -> list[str]:
    if not place.startswith("node_modules/") or len(place) > 4000:
        raise _refused(place, "is not in node_modules")
    parts = place.removeprefix("node_modules/").split("/node_modules/")
    if len(parts) > _MOST_DEPTH or not all(map(_is_name, parts)):
        raise _refused(place, "is no place for a package")
    return parts


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and len(name) <= _LONGEST_NAME and "node_modules" not in name.split("/")


def _identity(place: str, entry: dict[str, Any]) -> tuple[str, str, str]:
    name, version = entry.get("name"), entry.get("version")
    if entry.get("link"):
        raise _refused(place, "is a link to a folder")
    if not isinstance(name, str) or not _is_name(name):
        raise _refused(place, "has no name of a package")
    if not isinstance(version, str) or version_key(version) is None or version.strip() != version:
        raise _refused(place, "has no version")
    return name, version, _strongest(place, entry.get("integrity"))


def _strongest(place: str, text: Any) -> str:
    """The best of the hashes in the text of the field `integrity`."""
    hashes = dict(each.partition("?")[0].split("-", 1) for each in str(text).split() if "-" in each)
    for kind, bits in _BITS.items():
        value = hashes.get(kind, "")
        try:
            if len(b64decode(value, validate=True)) * 8 == bits:
                return f"{kind}-{value}"
        except (NotBase64, ValueError):
            pass
    raise InvalidRun(
        f"The registry names no hash for {place.removeprefix('node_modules/')[:200]}.",
        hint="Packages from addresses and repositories cannot be installed; use one of the registry.",
    )


def _package(
    name: str,
    version: str,
    digest: str,
    entry: dict[str, Any],
    places: Sequence[str],
    npm: NpmConfiguration,
    policy: PackagePolicy,
) -> LockedPackage:
    url, licence = entry.get("url"), entry.get("licence")
    has_scripts = bool(entry.get("scripts"))
    return LockedPackage(
        ecosystem=JAVASCRIPT,
        name=name,
        version=version,
        file=LockedFile(
            name=f"{name.rpartition('/')[2]}-{version}.tgz",
            # A file of another host is the registry's own under another name, as with npm's replace-registry-host.
            url=url if isinstance(url, str) and _is_of(url, npm) else file_url(npm, name, version),
            hash=digest,
            uploaded=_seconds(entry.get("uploaded")),
        ),
        licence=licence[:200] if isinstance(licence, str) else "",
        has_scripts=has_scripts,
        runs_scripts=has_scripts and policy.allows_scripts(name),
        place="\n".join(places),
    )


def _is_of(url: str, npm: NpmConfiguration) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https") and hosts_of([url])[0] in npm.hosts() and len(url) < 2000
    except (ValueError, IndexError):
        return False


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def _refused(place: str, why: str) -> Refused:
    shown = place.removeprefix("node_modules/")[:200] or "The list of packages"
    return Refused(f"{shown if shown.isprintable() else ascii(shown)} {why}.", hint="Nothing was installed.")
