"""Which languages this host can run, in which version, and what is to be done about the others.

Versions are asked of the programs themselves, all at once; that takes a while, so nothing on the way of a run needs it.
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
    from cloche.languages.toolchain import Found

READY, OLD, INSTALLABLE, UNAVAILABLE = "ready", "old", "installable", "unavailable"
INSTALL, PREPARE = "cloche languages install", "cloche languages prepare"
_REBUILD = "Run `make install` in the clone, or `python -m cloche.environment`."
_KINDS = ("packages", "node_packages")  # in the manifest
_AT_ONCE = 8  # programs that are asked for their version
_versions: dict[tuple[str, ...], str | None] = {}
_asking = Lock()


class State(Plain):
    """Whether a language can be run here, and what it takes if not."""

    name: str
    title: str
    state: str  # "ready", "old" (it may work), "installable" or "unavailable"
    version: str | None = None
    where: str = ""  # its first program, on the host
    why: str = ""  # what is missing, or could be better
    remedy: str = ""  # a command, or a sentence
    prepared: bool | None = None  # was what makes it quick made ahead? None: there is nothing to make
    sessions: bool = False


def look(manifest: Mapping[str, Any], wanted: Iterable[str] | None = None) -> list[State]:
    """The state of some languages, or of all; the manifest is that of the sandboxes' own environment."""
    spoken = [languages.find(name) for name in (languages.names() if wanted is None else wanted)]
    asked = _ask_all(spoken)
    return [_judge(language, manifest, asked.get(_key(language))) for language in spoken]


def missing(states: Iterable[State]) -> list[State]:
    """Those that cannot be run as they are."""
    return [state for state in states if state.state != READY]


def remedy(language: Language) -> str:
    """What whoever keeps this host can do to get it."""
    chain = language.toolchain
    if chain is None or chain.inside:
        return _REBUILD
    if chain.apt and can_apt():
        return f"Install it with `{INSTALL} {language.name}`."
    return chain.otherwise or f"Install {chain.programs[0]}."


def can_apt() -> bool:
    """Is this a Debian, or one of its children?"""
    from shutil import which

    return which("apt-get", path=f"{os.environ.get('PATH', '')}:/usr/bin") is not None


def _ask_all(spoken: Iterable[Language]) -> dict[tuple[str, ...], str | None]:
    """The versions of programs on the host; none is asked twice."""
    from concurrent.futures import ThreadPoolExecutor

    with _asking:
        new = {_key(language): language for language in spoken if _key(language) not in _versions}
        new.pop((), None)
        if new:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                _versions.update(zip(new, pool.map(_ask, new.values()), strict=True))
        return _versions


def _key(language: Language) -> tuple[str, ...]:
    """What makes a version another one: the program, when it was changed, and how it is asked; () without a program."""
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


def _judge(language: Language, manifest: Mapping[str, Any], asked: str | None) -> State:
    chain, found = language.toolchain, languages.tools(language)
    state = State(language.name, language.title, READY, sessions=language.kernel is not None)
    if chain is None:
        return state
    if found is None:
        return _absent(state, language, chain)
    inside = _of_environment(chain, manifest)
    if (chain.inside or chain.package) and inside is None:
        return state.replace(state=UNAVAILABLE, why="The sandboxes' environment does not have it.", remedy=_REBUILD)
    if not chain.inside and asked is None:
        return state.replace(state=UNAVAILABLE, why=f"{found.on_host} does not work.", remedy=remedy(language))
    state = state.replace(version=inside or asked, where=found.on_host or "the sandboxes' own environment")
    if asked is not None and toolchain.is_old(chain, asked):
        why = f"{chain.programs[0]} {asked} is older than {chain.least}, the least that does."
        return state.replace(state=OLD, why=why, remedy=chain.otherwise or remedy(language))
    return _with_preparation(state, language, found)


def _of_environment(chain: toolchain.Toolchain, manifest: Mapping[str, Any]) -> str | None:
    """The version of what the sandboxes' environment brings."""
    if not chain.package:
        return manifest.get("python") if chain.inside else None
    return next((manifest[kind][chain.package] for kind in _KINDS if chain.package in manifest.get(kind, ())), None)


def _absent(state: State, language: Language, chain: toolchain.Toolchain) -> State:
    why = f"There is no {' and '.join(chain.programs)} on this host."
    installable = bool(chain.apt) and can_apt()
    return state.replace(state=INSTALLABLE if installable else UNAVAILABLE, why=why, remedy=remedy(language))


def _with_preparation(state: State, language: Language, found: Found) -> State:
    if language.preparation is None:
        return state
    if not preparation.is_wanted(language, found):
        return state.replace(prepared=True)
    return state.replace(
        prepared=False,
        why=f"Not prepared, so it starts slower: {language.preparation.what}.",
        remedy=f"Run `{PREPARE} {language.name}`.",
    )
