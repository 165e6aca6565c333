"""Turns source code into commands.  Each language has a folder here; this module finds it by name or alias.

A language's folder holds its definition (`definition.py`), the marks by which its code is recognised (`detection.py`),
and whatever else belongs to that language alone.  A run imports the definition of its own language only: importing all
of them takes longer than starting a sandbox.

Tests: tests/languages
"""

from __future__ import annotations

import os

from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.languages.language import Language
    from cloche.languages.toolchain import FoundTools

FOLDER = os.path.dirname(os.path.abspath(__file__))
# Databases by the names that people use as a language: there is no server for them in a sandbox.
_DATABASES = {
    **dict.fromkeys(("postgres", "postgresql", "psql", "pgsql", "plpgsql"), "PostgreSQL"),
    **dict.fromkeys(("mysql", "mariadb"), "MySQL"),
    **dict.fromkeys(("tsql", "t-sql", "mssql", "sqlserver"), "SQL Server"),
    **dict.fromkeys(("plsql", "oracle"), "Oracle"),
}
_names: list[str] = []
_languages: dict[str, Language] = {}  # by name and by alias, as far as they have been imported
_found: dict[str, FoundTools | None] = {}


def find(name: str) -> Language:
    """Return the language of this name or alias."""
    wanted = name.strip().lower() if isinstance(name, str) else ""
    if wanted not in _languages:
        _languages[wanted] = _imported(wanted) if wanted in names() else _by_alias(wanted, name)
    return _languages[wanted]


def _imported(name: str) -> Language:
    language: Language = __import__(f"cloche.languages.{name}.definition", fromlist=["LANGUAGE"]).LANGUAGE
    return language


def _by_alias(alias: str, name: str) -> Language:
    for language in _likely_first(alias):
        if alias in language.aliases:
            return language
    if alias in _DATABASES:
        raise InvalidRun(
            f"Cloche has no {_DATABASES[alias]}: SQL runs on DuckDB, whose dialect is close to PostgreSQL's, "
            "or on SQLite.",
            hint='Use language="sql" for DuckDB, or language="sqlite".',
        )
    raise InvalidRun(f"The language {name!r:.100} is unknown.", hint=_similar(alias))


def _similar(word: str) -> str:
    """Name the languages that the word may mean, and all that there are."""
    from cloche.nearest import nearest

    by_word = {known: language.name for language in everything() for known in (language.name, *language.aliases)}
    near = dict.fromkeys(by_word[known] for known in nearest(word, by_word, 3, 0.8))
    return (f"Did you mean {' or '.join(near)}? " if near else "") + f"Known languages: {', '.join(names())}."


def _likely_first(word: str) -> Iterator[Language]:
    """Import all languages one by one; those with the same initial come first, because aliases often share it."""
    return map(find, sorted(names(), key=lambda name: name[:1] != word[:1]))


def names() -> list[str]:
    """List the names of all languages: the folders that contain a definition."""
    if not _names:
        folders = (name for name in os.listdir(FOLDER) if "." not in name)
        _names.extend(sorted(name for name in folders if has_file(name, "definition.py")))
    return list(_names)


def has_file(name: str, file: str) -> bool:
    return os.path.exists(f"{FOLDER}/{name}/{file}")


def everything() -> list[Language]:
    """Import the definitions of all languages."""
    return [find(name) for name in names()]


def by_name(file: str) -> str | None:
    """Return the language that a file's extension belongs to; None if it belongs to no language."""
    suffix = file[file.rfind(".") :].lower() if "." in file else ""
    if suffix == ".py":
        return "python"
    return next((each.name for each in _likely_first(suffix[1:]) if suffix in each.extensions), None)


def tools(language: Language) -> FoundTools | None:
    """Return where the language's tools are; None if this host does not have them."""
    if language.name not in _found:
        from cloche.languages import preparation, toolchain

        found = toolchain.find(language.name, language.toolchain) if language.toolchain is not None else None
        _found[language.name] = preparation.with_prepared(language, found) if found is not None else None
    return _found[language.name]


def installed_since(language: Language) -> bool:
    """Were the language's tools installed after this process looked for them?"""
    from cloche.languages import toolchain

    chain = language.toolchain
    return chain is not None and tools(language) is None and toolchain.find(language.name, chain) is not None


def forget_tools() -> None:
    """Look for tools again when they are next needed, because some have been installed or prepared."""
    _found.clear()
