"""Packages as callers ask for them (Requirement), and as a resolver has chosen them (Lock): plain data.

The texts that callers write are read in `python_requirements.py` and `npm_requirements.py`, which a run without
packages never imports.
"""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PYTHON, JAVASCRIPT = "python", "javascript"
ECOSYSTEMS = (PYTHON, JAVASCRIPT)
MAX_REQUIREMENTS = 100  # in one request
MAX_TEXT = 500  # characters of one requirement, without its hashes
_ALIASES = {"pip": PYTHON, "pypi": PYTHON, "npm": JAVASCRIPT, "node": JAVASCRIPT, "typescript": JAVASCRIPT}


class LockedFile(Plain):
    """One file of an index."""

    name: str
    url: str
    hash: str  # "sha256:…" of a Python package, or npm's "sha512-…"
    size: int | None = None  # bytes to download, if the index says so
    uploaded: float | None = None  # seconds since 1970


class LockedPackage(Plain):
    """One package of a lock: a version that a resolver has chosen, and the file it comes in."""

    ecosystem: str
    name: str  # normalised as PEP 503 says, or npm's name with its scope
    version: str
    file: LockedFile
    licence: str = ""  # as its index or its metadata says
    is_source: bool = False  # it has no wheel and would have to be built
    has_scripts: bool = False  # npm would run code of it when it is installed
    runs_scripts: bool = False  # and this code runs, since the policy names the package
    place: str = ""  # npm's folders for it, one on each line: node_modules/a/node_modules/b


class Lock(Plain):
    """What a resolver has chosen for some requirements, complete with all dependencies."""

    ecosystem: str
    packages: tuple[LockedPackage, ...]

    @property
    def digest(self) -> str:
        """The SHA-256 digest of names, versions, hashes and places, in hexadecimal: the name of the layer."""
        from hashlib import sha256
        from json import dumps

        chosen = sorted((e.name, e.version, e.file.hash, e.place, e.runs_scripts) for e in self.packages)
        return sha256(dumps([self.ecosystem, chosen]).encode()).hexdigest()


class Requirement(Plain):
    """One package that a caller asks for."""

    ecosystem: str
    name: str  # normalised
    text: str  # for uv or npm
    pinned: bool = False  # to exactly one version
    hashes: tuple[str, ...] = ()  # of the files that may be installed

    @property
    def version(self) -> str | None:
        """The version that it is pinned to."""
        if not self.pinned:
            return None
        if self.ecosystem == JAVASCRIPT:
            return self.text.rpartition("@")[2]
        return self.text.partition(";")[0].partition("==")[2].lstrip("=").strip()


def ecosystem_of(name: str) -> str:
    """Return the ecosystem that a name stands for: also `npm`, `pip`, or a language that shares its packages."""
    found = _ALIASES.get(name, name) if isinstance(name, str) else name
    if found not in ECOSYSTEMS:
        raise InvalidRun(
            f"Packages of {name!r:.100} cannot be installed.", hint=f"There are packages of {' and '.join(ECOSYSTEMS)}."
        )
    return found


def normal_name(name: str, ecosystem: str) -> str:
    """Return the one spelling of a package's name: Python's indexes ignore case, and take `_` and `.` for `-`."""
    if ecosystem == JAVASCRIPT:
        return name
    return "-".join(part for part in name.lower().replace("_", "-").replace(".", "-").split("-") if part)


def requirements_of(
    values: Iterable[str] | str | Mapping[str, Iterable[str]] | None, ecosystem: str
) -> tuple[Requirement, ...]:
    """Return what a caller asks for: one requirement, a list of them, or lists by ecosystem.  Each counts once."""
    if values is None:
        return ()
    found: dict[Requirement, None] = {}
    for each, given in _by_ecosystem(values, ecosystem):
        for text in _texts(given):
            found[_requirement(text, each)] = None
            if len(found) > MAX_REQUIREMENTS:
                raise InvalidRun(
                    f"At most {MAX_REQUIREMENTS} packages can be asked for at once.",
                    hint="Leave out what other packages bring along, or install the rest in a second request.",
                )
    return tuple(found)


def script_requirements(code: str) -> tuple[str, ...]:
    """Return the `dependencies` of the PEP 723 block at the top of a script; empty if it has none."""
    if "# /// script" not in code:
        return ()
    from cloche.model.script_block import dependencies

    return dependencies(code)


def requirements_file(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a `requirements.txt`."""
    from cloche.model.requirements_file import requirements

    return requirements(text)


def _by_ecosystem(
    values: Iterable[str] | Mapping[str, Iterable[str]], ecosystem: str
) -> list[tuple[str, Iterable[str]]]:
    if hasattr(values, "items"):
        return [(ecosystem_of(name), given) for name, given in values.items()]
    return [(ecosystem_of(ecosystem), values)]


def _texts(given: Iterable[str]) -> Iterable[str]:
    if isinstance(given, str):
        return (given,)
    # A dict or bytes can be iterated as well, and would give something that nobody meant.
    if not hasattr(given, "__iter__") or isinstance(given, bytes | dict):
        raise InvalidRun(
            f"packages is a list of names, not {given!r:.100}.", hint='Write packages=["polars", "httpx>=0.27"].'
        )
    return given


def _requirement(text: str, ecosystem: str) -> Requirement:
    if not isinstance(text, str):
        raise InvalidRun(f"A package is named by a text, not by {text!r:.100}.", hint='Write packages=["polars"].')
    if ecosystem == PYTHON:
        from cloche.model.python_requirements import python_requirement

        return python_requirement(text)
    from cloche.model.npm_requirements import npm_requirement

    return npm_requirement(text)
