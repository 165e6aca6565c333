"""One entry of a catalogue in OSV's format, and whether it is about a version."""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model import npm_versions, python_versions
from cloche.model.packages import JAVASCRIPT, PYTHON, normal_name
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ECOSYSTEMS = {"PyPI": PYTHON, "npm": JAVASCRIPT}
_MALICIOUS = "MAL-"
_LONGEST = 300  # characters of an id, a name or a summary that are kept
_MAX_AFFECTED, _MAX_VERSIONS, _MAX_EVENTS = 10_000, 50_000, 10_000  # of one entry


class Advisory(Plain):
    """What a catalogue says of one package: which versions are malicious, or have a known weakness."""

    ecosystem: str
    name: str
    id: str
    summary: str
    versions: tuple[str, ...]
    # Each range is a list of events such as ("introduced", "0") and ("fixed", "1.2").
    ranges: tuple[tuple[tuple[str, str], ...], ...]

    @property
    def is_malicious(self) -> bool:
        """Whether the package was published to do harm."""
        return self.id.startswith(_MALICIOUS)

    @property
    def is_about_all(self) -> bool:
        """Whether it is about every version, those that are not released yet included."""
        if not self.versions and not self.ranges:
            return self.is_malicious
        return any(events == (("introduced", "0"),) for events in self.ranges)

    def is_about(self, version: str) -> bool:
        """Whether it is about a version.

        A malicious package that names no version is malicious in all of them, and a version that cannot be compared
        counts as malicious.
        """
        if self.is_about_all:
            return True
        language = npm_versions if self.ecosystem == JAVASCRIPT else python_versions
        key = language.version_key(version)
        if version in self.versions or (key is not None and any(language.version_key(v) == key for v in self.versions)):
            return True
        if key is None:
            return self.is_malicious and bool(self.ranges)
        return any(_is_in(key, events, language) for events in self.ranges)


def advisories_of(entry: Any, where: str) -> list[Advisory]:
    """The advisories of one entry, one for each package; InvalidRun if it is not OSV's format."""
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str) or not entry["id"]:
        raise InvalidRun(f"{where} is not an entry in OSV's format: it has no id.")
    if entry.get("withdrawn"):
        return []
    name = entry["id"][:_LONGEST]
    summary = entry.get("summary") or ""
    found: dict[tuple[str, str], Advisory] = {}
    for affected in _list(entry, "affected", where, _MAX_AFFECTED):
        package = affected.get("package") if isinstance(affected, dict) else None
        if package is None and isinstance(affected, dict):
            continue  # OSV has entries about commits alone
        if not isinstance(package, dict) or not isinstance(package.get("name"), str):
            raise InvalidRun(f"{where} is not an entry in OSV's format: a package has no name.")
        ecosystem = _ECOSYSTEMS.get(str(package.get("ecosystem")).partition(":")[0])
        if ecosystem is None:
            continue
        of = normal_name(package["name"][:_LONGEST], ecosystem)
        known = found.get((ecosystem, of))
        versions = _list(affected, "versions", where, _MAX_VERSIONS)
        if not all(isinstance(each, str) for each in versions):
            raise InvalidRun(f"{where} is not an entry in OSV's format: a version is not a text.")
        ranges = [_events(each, where) for each in _list(affected, "ranges", where, _MAX_EVENTS)]
        one = Advisory(
            ecosystem,
            of,
            name,
            " ".join(str(summary).split())[:_LONGEST],
            tuple(versions),
            tuple(each for each in ranges if each),
        )
        found[ecosystem, of] = one if known is None else _together(known, one)
    return list(found.values())


def _together(one: Advisory, other: Advisory) -> Advisory:
    """Two parts of an entry about one package.  A part without any version is about all of them."""
    if not (one.versions or one.ranges) or not (other.versions or other.ranges):
        return one.replace(versions=(), ranges=((("introduced", "0"),),))
    return one.replace(versions=one.versions + other.versions, ranges=one.ranges + other.ranges)


def _events(found: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, dict):
        raise InvalidRun(f"{where} is not an entry in OSV's format: a range is not a table.")
    if found.get("type") not in ("SEMVER", "ECOSYSTEM"):  # commits of a repository
        return ()
    events = []
    for event in _list(found, "events", where, _MAX_EVENTS):
        if not isinstance(event, dict) or not all(isinstance(text, str) for text in event.values()):
            raise InvalidRun(f"{where} is not an entry in OSV's format: an event is not a table of texts.")
        events += [(kind, text) for kind, text in event.items() if kind in ("introduced", "fixed", "last_affected")]
    return tuple(events)


def _is_in(key: tuple[Any, ...], events: tuple[tuple[str, str], ...], language: Any) -> bool:
    """Whether a version is in a range: each event before it, in the order of versions, turns that on or off."""
    placed = []
    for kind, text in events:
        at: tuple[Any, ...] | None = () if text == "0" and kind == "introduced" else language.version_key(text)
        if at is not None:
            placed.append((at, kind))
    is_in = False
    for at, kind in sorted(placed, key=lambda each: each[0]):
        if kind == "introduced" and key >= at:
            is_in = True
        elif (kind == "fixed" and key >= at) or (kind == "last_affected" and key > at):
            is_in = False
    return is_in


def _list(table: dict[str, Any], field: str, where: str, most: int) -> list[Any]:
    found = table.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or len(found) > most:
        raise InvalidRun(f"{where} is not an entry in OSV's format: {field} is not a list of at most {most}.")
    return found
