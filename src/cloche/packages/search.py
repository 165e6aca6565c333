"""Looks for packages by name, and by words of their descriptions where these are known.

No index of Python packages can be searched by words.  The names come from the lists of popular packages, from the
environment and from earlier searches; the index is asked for the newest versions and descriptions, and for the very
name that was written.  npm's registry can be searched, and is.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from time import time

from cloche.errors import ClocheError, InvalidRun
from cloche.model.installs import FoundPackage, FoundPackages
from cloche.model.packages import JAVASCRIPT, PYTHON, normal_name
from cloche.packages import indexes as package_indexes
from cloche.packages import lookalikes, workshop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MOST = 25  # packages that are found
_MAX_TEXT = 100  # characters
_PATIENCE_S = 2.0  # for the index; then the names go without versions
_SANDBOX_S = 5.0
_DAY_S = 86_400
_MAX_KEPT = 5000  # names in a file
_NO_ANSWER = "The package index did not answer in time, so packages, versions or descriptions may be missing."
_NO_INSTALLS = "No packages may be installed, so the index was not asked, and versions or packages may be missing."
_NAMES = {
    PYTHON: re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"),
    JAVASCRIPT: re.compile(r"(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*"),
}


def search(text: str, ecosystem: str, environment: str, present: Mapping[str, str], folder: str) -> FoundPackages:
    """Return at most 25 packages, the best first.

    `present` are those of the environment, with their versions.  The answers of the index are kept in `folder`; without
    one, the index is not asked, because nothing may be installed anyway.
    """
    words = _words(text)
    known = _Known(folder, ecosystem)
    wanted = normal_name("-".join(words), ecosystem) if ecosystem == PYTHON else "".join(words)
    exact = wanted if _NAMES[ecosystem].fullmatch(wanted) else ""
    here = _summaries(environment) if ecosystem == PYTHON else {}
    names = _ranked(words, exact, ecosystem, present, {**here, **known.summaries()})
    unknown = [name for name in names if not known.is_fresh(name)]
    if not folder:
        unknown = []
    asks = folder and ecosystem == JAVASCRIPT and not known.is_fresh(_query(words))
    warning = ""
    if asks:
        answer = _ask(ecosystem, [""], " ".join(words))
        known.add({name: about for name, about in answer["found"].items() if name})
        warning = answer["failed"]
        if not warning and not answer["missing"]:
            known.add({_query(words): [*answer["found"]][:MOST]})
            unknown = []
    if unknown and not warning:
        answer = _ask(ecosystem, unknown, "")
        known.add(answer["found"])
        known.add(dict.fromkeys(answer["missing"], ()))
        warning = answer["failed"]
    if folder:
        known.keep()
    else:
        warning = _NO_INSTALLS
    names = list(dict.fromkeys((*([exact] if known.version(exact) else []), *known.found_by(_query(words)), *names)))
    found = [_found(name, ecosystem, present, here, known) for name in names]
    shown = [each for each in found if each is not None][:MOST]
    if not warning:
        return FoundPackages(shown)
    # The reason names addresses of the operator's network, which are not for everybody who searches.
    return FoundPackages(shown, (_NO_INSTALLS if warning is _NO_INSTALLS else _NO_ANSWER,))


def _words(text: str) -> list[str]:
    words = text.lower().split()
    if not words or len(text) > _MAX_TEXT:
        raise InvalidRun(
            f"A search is for a text of 1 to {_MAX_TEXT} characters.", hint="Write a name, or a word such as pdf."
        )
    return words


def _query(words: Iterable[str]) -> str:
    """The name under which the names that the registry's own search has found are kept."""
    return f"?{' '.join(words)}"


def _ranked(
    words: list[str], exact: str, ecosystem: str, present: Mapping[str, str], summaries: Mapping[str, str]
) -> list[str]:
    """The names that may be meant, the best first."""
    popular = {name: rank for rank, name in enumerate(lookalikes.popular_names(ecosystem))}
    ranks: dict[str, tuple[int, int]] = {}
    for name in {*popular, *present, *summaries}:
        if name == exact:
            kind = 0
        elif all(word in name for word in words):
            kind = 1 if name.startswith(words[0]) else 2
        elif all(re.search(rf"\b{re.escape(word)}", f"{name} {summaries.get(name, '')}".lower()) for word in words):
            kind = 3
        else:
            continue
        ranks[name] = kind, popular.get(name, len(popular))
    if exact:
        ranks[exact] = 0, 0
        meant = lookalikes.meant_name(ecosystem, exact)
        if meant is not None:
            ranks.setdefault(meant, (2, -1))
    return sorted(ranks, key=lambda name: (*ranks[name], name))[:MOST]


def _found(
    name: str, ecosystem: str, present: Mapping[str, str], here: Mapping[str, str], known: _Known
) -> FoundPackage | None:
    installed = present.get(name)
    if known.is_missing(name) and installed is None:
        return None
    version, summary = known.version(name), known.summary(name) or here.get(name, "")
    if not version and installed is None and name not in lookalikes.popular_names(ecosystem):
        return None  # only the caller says that there is such a package
    return FoundPackage(name, version or installed or "", summary, ecosystem, installed)


def _ask(ecosystem: str, names: list[str], text: str) -> dict[str, Any]:
    """Ask the index in a sandbox that reaches nothing else."""
    indexes = package_indexes.find()
    index, hosts = (indexes.pip, indexes.pip_hosts) if ecosystem == PYTHON else (indexes.npm, indexes.npm_hosts)
    nothing: dict[str, Any] = {"found": {}, "missing": [], "failed": "no index is configured"}
    if not index:
        return nothing
    from cloche.packages.python_packages import authorization

    order = {
        "ecosystem": ecosystem,
        "index": index,
        "names": names,
        "text": text,
        "authorization": authorization() if ecosystem == PYTHON else {},
        "seconds": _PATIENCE_S,
    }
    try:
        result = workshop.run(
            files={"ask_index.py": workshop.program("ask_index"), "python_versions.py": _versions_program()},
            entry="ask_index.py",
            stdin=json.dumps(order),
            network=hosts,
            timeout_s=_SANDBOX_S,
        )
        return _checked(workshop.answer(result), {*names} if names != [""] else None)
    except ClocheError as problem:
        return {**nothing, "failed": problem.message}


def _checked(answer: dict[str, Any], names: set[str] | None) -> dict[str, Any]:
    """An answer in its form, which came out of a sandbox and was made of what the index had sent."""
    found: dict[str, list[str]] = {}
    given = answer.get("found")
    for name, about in (given if isinstance(given, dict) else {}).items():
        is_pair = isinstance(about, list) and len(about) == 2 and all(isinstance(each, str) for each in about)
        if is_pair and len(name) <= 214 and (names is None or name in names):
            found[name] = [about[0][:100], "".join(each for each in about[1][:400] if each.isprintable())]
    given = answer.get("missing")
    missing = [name for name in (given if isinstance(given, list) else ()) if names is None or name in names]
    return {"found": found, "missing": missing, "failed": str(answer.get("failed") or "")}


def _versions_program() -> str:
    from cloche.model import python_versions

    with open(python_versions.__file__, encoding="utf-8") as file:
        return file.read()


@lru_cache(4)
def _summaries(environment: str) -> dict[str, str]:
    """What the packages of the environment say about themselves."""
    found = {}
    for version in sorted(os.listdir(f"{environment}/lib")):
        folder = f"{environment}/lib/{version}/site-packages"
        for entry in os.listdir(folder) if os.path.isdir(folder) else ():
            if entry.endswith(".dist-info"):
                try:
                    with open(f"{folder}/{entry}/METADATA", encoding="utf-8", errors="replace") as file:
                        head = file.read(8192).partition("\n\n")[0]
                except OSError:
                    continue
                line = re.search(r"^Summary: (.*)$", head, re.MULTILINE)
                if line:
                    found[normal_name(entry.partition("-")[0], PYTHON)] = line[1].strip()[:300]
    return found


class _Known:
    """The answers of the index of the last day, in one file for each ecosystem.

    Each name has a version and a summary, or neither if there is no such package.  A query has names.
    """

    def __init__(self, folder: str, ecosystem: str) -> None:
        self._path, self._is_changed = f"{folder}/search/{ecosystem}.json" if folder else os.devnull, False
        self._entries: dict[str, tuple[float, list[str]]] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                given = json.load(file)
            self._entries = {str(name): (float(when), list(map(str, about))) for name, (when, about) in given.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass  # none was kept, or by another version

    def is_fresh(self, name: str) -> bool:
        return name in self._entries and 0 <= time() - self._entries[name][0] < _DAY_S

    def is_missing(self, name: str) -> bool:
        return self.is_fresh(name) and not self._entries[name][1]

    def version(self, name: str) -> str:
        return self._part(name, 0)

    def summary(self, name: str) -> str:
        return self._part(name, 1)

    def _part(self, name: str, number: int) -> str:
        about = self._entries.get(name, (0.0, []))[1]
        return about[number] if len(about) == 2 else ""

    def summaries(self) -> dict[str, str]:
        pairs = self._entries.items()
        return {name: about[1] for name, (_, about) in pairs if len(about) == 2 and not name.startswith("?")}

    def found_by(self, query: str) -> list[str]:
        return self._entries[query][1] if self.is_fresh(query) else []

    def add(self, answers: Mapping[str, Iterable[str]]) -> None:
        for name, about in answers.items():
            self._entries.pop(name, None)  # the newest are the last
            self._entries[name] = time(), list(about)
            self._is_changed = True

    def keep(self) -> None:
        """Write the file; of two searches at the same time, one may be forgotten."""
        if not self._is_changed:
            return
        kept = dict(list(self._entries.items())[-_MAX_KEPT:])
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        draft = f"{self._path}.{os.getpid()}.{time()}.part"
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(draft, self._path)
