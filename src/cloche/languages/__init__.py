"""How source becomes commands: one file per language in definitions/, found here by name or alias."""

from __future__ import annotations

from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.languages.language import Language
    from cloche.languages.toolchain import Found

_known: dict[str, Language] = {}
_found: dict[str, Found | None] = {}


def find(name: str) -> Language:
    """The language of this name or alias."""
    wanted = name.strip().lower() if isinstance(name, str) else ""
    if wanted in _known:
        return _known[wanted]
    if wanted.isidentifier() and wanted in names():
        _known[wanted] = __import__(f"cloche.languages.definitions.{wanted}", fromlist=["LANGUAGE"]).LANGUAGE
        return _known[wanted]
    for language in everything():
        for alias in language.aliases:
            _known.setdefault(alias, language)
    if wanted in _known:
        return _known[wanted]
    raise InvalidRun(f"The language {name!r:.100} is unknown.", hint=f"Known are {', '.join(names())}.")


def names() -> list[str]:
    """All languages: a file each."""
    if not _names:
        import os

        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "definitions")
        files = (file.removesuffix(".py") for file in os.listdir(folder) if file.endswith(".py"))
        _names.extend(sorted(name for name in files if not name.startswith("_")))
    return list(_names)


_names: list[str] = []


def everything() -> list[Language]:
    """What is known of each."""
    return [find(name) for name in names()]


def aliases(name: str) -> tuple[str, ...]:
    """By what other names a language is known."""
    return find(name).aliases


def choose(language: str | None, code: str, file: str | None = None, label: str = "") -> str:
    """The language that was named; without one, what its fence's label says, or what the code looks like."""
    if language is not None:
        return language
    from cloche.languages.detect import detect

    guess = detect(code, file=file, label=label)
    if guess.language in names():
        return guess.language
    looks = f"This looks like {guess.language}, which cannot be run yet." if guess.language else ""
    raise InvalidRun(looks or "The language cannot be told from the code.", hint=f"Name it: {', '.join(names())}.")


def of(language: str | None, code: str | None, file: str | None) -> str:
    """The language that was named; without one, that of the file's name; else Python."""
    if language is not None:
        return language
    if file is None:
        return "python"
    return by_name(file) or choose(None, code or "", file)


def by_name(file: str) -> str | None:
    """The language whose files are called so; None when the name does not tell."""
    suffix = file[file.rfind(".") :].lower() if "." in file else ""
    if suffix == ".py":
        return "python"
    for each in map(find, sorted(names(), key=lambda name: not suffix.startswith(f".{name[:1]}"))):  # likely ones first
        if suffix in each.extensions:
            return each.name
    return None


def tools(language: Language) -> Found | None:
    """Where a language's tools are; None when the host has none."""
    if language.name not in _found:
        from cloche.languages import prepared, toolchain

        found = toolchain.find(language.name, language.toolchain) if language.toolchain is not None else None
        _found[language.name] = prepared.with_it(language, found) if found is not None else None
    return _found[language.name]


def has_come(language: Language) -> bool:
    """Is it here by now, though it was not when this process looked?"""
    from cloche.languages import toolchain

    chain = language.toolchain
    return chain is not None and tools(language) is None and toolchain.find(language.name, chain) is not None


def look_again() -> None:
    """Forget where tools were: some have been installed."""
    _found.clear()


def visible() -> dict[str, Any]:
    """What the jail shows of this host beside /usr: folders and where they go, and what PATH has in addition."""
    from cloche.languages.seen import seen

    return seen()
