"""Reports which languages this host can run, in which version, and how to get the others.

Every program is asked for its version, several at a time.  That takes a while, so no run depends on it.
"""

from __future__ import annotations

import os
from threading import Lock

from cloche import languages
from cloche.languages import preparation, toolchain
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from cloche.languages.language import Language
    from cloche.languages.toolchain import FoundTools

READY, OLD, INSTALLABLE, UNAVAILABLE = "ready", "old", "installable", "unavailable"
INSTALL, PREPARE = "cloche languages install", "cloche languages prepare"
_REBUILD = "Run `cloche setup`, which builds the full environment."
_KINDS = ("packages", "node_packages")  # sections of the environment's manifest
_AT_ONCE = 8  # programs that are asked for their version at the same time
_versions: dict[tuple[str, ...], str | None] = {}
_asking = Lock()


class Availability(Plain):
    """Whether this host can run a language, and what to do if it cannot."""

    name: str
    title: str
    state: str  # "ready", "old" (it may work), "installable" or "unavailable"
    version: str | None = None
    where: str = ""  # path of its first program on the host
    why: str = ""  # what is missing, or could be improved
    remedy: str = ""  # a command, or a sentence
    prepared: bool | None = None  # were its prepared files made? None: it has none
    sessions: bool = False


def check_languages(manifest: Mapping[str, Any], wanted: Iterable[str] | None = None) -> list[Availability]:
    """Check some languages, or all; the manifest describes the sandboxes' Python environment."""
    checked = [languages.find(name) for name in (languages.names() if wanted is None else wanted)]
    versions = _ask_all(checked)
    return [_judge(language, manifest, versions.get(_key(language))) for language in checked]


def installed(manifest: Mapping[str, Any]) -> list[Language]:
    """Return the languages whose tools this host has; no program is asked for its version."""
    return [language for language in languages.everything() if _is_installed(language, manifest)]


def _is_installed(language: Language, manifest: Mapping[str, Any]) -> bool:
    chain = language.toolchain
    if chain is None:
        return True
    lacks_package = (chain.inside or chain.package) and _of_environment(chain, manifest) is None
    return languages.tools(language) is not None and not lacks_package


def not_ready(states: Iterable[Availability]) -> list[Availability]:
    return [state for state in states if state.state != READY]


def remedy(language: Language) -> str:
    """Tell the host's operator how to get the language."""
    chain = language.toolchain
    if chain is None or chain.inside:
        return _REBUILD
    if chain.apt and can_apt():
        return f"Install it with `{INSTALL} {language.name}`."
    return chain.otherwise or f"Install {chain.programs[0]}."


def can_apt() -> bool:
    """Does this host have apt, as Debian and its derivatives do?"""
    from shutil import which

    return which("apt-get", path=f"{os.environ.get('PATH', '')}:/usr/bin") is not None


def _ask_all(checked: Iterable[Language]) -> dict[tuple[str, ...], str | None]:
    """Return the versions of the host's programs; no program is asked twice."""
    from concurrent.futures import ThreadPoolExecutor

    with _asking:
        new = {_key(language): language for language in checked if _key(language) not in _versions}
        new.pop((), None)
        if new:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                _versions.update(zip(new, pool.map(_ask, new.values()), strict=True))
        return _versions


def _key(language: Language) -> tuple[str, ...]:
    """Return what a version depends on: the program, its date, and how it is asked; () without a program."""
    chain, found = language.toolchain, languages.tools(language)
    if chain is None or found is None or not found.on_host:
        return ()
    try:
        changed = str(os.stat(found.on_host).st_mtime_ns)
    except OSError:
        changed = ""
    return found.on_host, changed, chain.pattern, *chain.version


def _ask(language: Language) -> str | None:
    found = languages.tools(language)
    assert language.toolchain is not None
    assert found is not None
    return toolchain.version(language.toolchain, found)


def _judge(language: Language, manifest: Mapping[str, Any], version: str | None) -> Availability:
    chain, found = language.toolchain, languages.tools(language)
    state = Availability(language.name, language.title, READY, sessions=language.kernel is not None)
    if chain is None:
        return state
    if found is None:
        return _absent(state, language, chain)
    inside = _of_environment(chain, manifest)
    if (chain.inside or chain.package) and inside is None:
        return state.replace(
            state=UNAVAILABLE, why="The sandboxes' Python environment does not contain it.", remedy=_REBUILD
        )
    if not chain.inside and version is None:
        return state.replace(
            state=UNAVAILABLE, why=f"{found.on_host} does not report its version.", remedy=remedy(language)
        )
    state = state.replace(version=inside or version, where=found.on_host or "the sandboxes' own environment")
    if version is not None and toolchain.is_old(chain, version):
        why = f"{chain.programs[0]} {version} is older than {chain.least}, the oldest supported version."
        return state.replace(state=OLD, why=why, remedy=chain.otherwise or remedy(language))
    return _with_preparation(state, language, found)


def _of_environment(chain: toolchain.Toolchain, manifest: Mapping[str, Any]) -> str | None:
    """Return the version of the package in the sandboxes' environment."""
    if not chain.package:
        return manifest.get("python") if chain.inside else None
    return next((manifest[kind][chain.package] for kind in _KINDS if chain.package in manifest.get(kind, ())), None)


def _absent(state: Availability, language: Language, chain: toolchain.Toolchain) -> Availability:
    why = f"{' and '.join(chain.programs)} not found on this host."
    installable = bool(chain.apt) and can_apt()
    return state.replace(state=INSTALLABLE if installable else UNAVAILABLE, why=why, remedy=remedy(language))


def _with_preparation(state: Availability, language: Language, found: FoundTools) -> Availability:
    if language.preparation is None:
        return state
    if not preparation.is_missing(language, found):
        return state.replace(prepared=True)
    return state.replace(
        prepared=False,
        why=f"Not prepared, so it starts slower: {language.preparation.what}.",
        remedy=f"Run `{PREPARE} {language.name}`.",
    )
