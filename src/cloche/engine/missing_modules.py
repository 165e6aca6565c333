"""Suggestions for a program that asked for a library that is not installed: a similar name, or another library.

The name comes from the program, so it is short, plain text, and is only looked up.  The suggestions come from the
manifest of the sandboxes' environment and from tables (replacements.py), never from inside the sandbox.
"""

from __future__ import annotations

import os
import sys

from cloche import environment, settings
from cloche.engine import replacements
from cloche.environment.absence import locked_packages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from re import Match

INSTALLED_ONLY = "Use a library that is installed, or one of the standard library."
_MESSAGE = 500  # characters of a message that are searched
_NAME = r"[@\w][\w@./:-]{0,80}"
_MOST = 3  # suggestions
_LIKENESS = 0.75  # of two names, from 0 to 1, below which one is no misspelling of the other

# The messages by which each language reports a missing library.
_PYTHON = r"^No module named '(\w[\w.]{0,80})'"
_NODE = rf"^Cannot find (?:module|package) '({_NAME})'"
_NODE_BUILTIN = rf"^No such built-in module: (?:node:)?({_NAME})"
_R = rf"there is no package called [\u2018'\"]({_NAME})[\u2019'\"]"
_RUBY = rf"^cannot load such file -- ({_NAME})$"
_PERL = rf"^Can't locate ({_NAME})\.pm in @INC"


def advice(name: str, message: str) -> str | None:
    """Return a sentence with suggestions for an error of this name and message; None if there are none."""
    if name == "ModuleNotFoundError":
        found = _found(_PYTHON, message)
        return None if found is None else _python(found[1])
    if (found := _found(_NODE, message) or _found(_NODE_BUILTIN, message)) is not None:
        return _node(found[1].removeprefix("node:"))
    if (found := _found(_R, message)) is not None:
        return _suggest(found[1], replacements.R, replacements.R_MODULES.split(), found[1])
    if name == "LoadError" and (found := _found(_RUBY, message)) is not None:
        return _suggest(found[1], replacements.RUBY, replacements.RUBY_MODULES.split(), found[1].partition("/")[0])
    if (found := _found(_PERL, message)) is not None:
        wanted = found[1].replace("/", "::")
        return _suggest(wanted, replacements.PERL, replacements.PERL_MODULES.split(), wanted)
    return None


def _found(pattern: str, message: str) -> Match[str] | None:
    from re import search

    return search(pattern, message[:_MESSAGE].partition("\n")[0])


def _python(wanted: str) -> str | None:
    home = settings.load().environment or environment.location()
    installed = _python_modules(environment.manifest(home).get("packages", ()))
    top, _, rest = wanted.partition(".")
    if top not in installed and environment.is_slim(home) and top in _python_modules(locked_packages()):
        return f"{top} is not in the slim environment: on the host, `cloche setup` installs the full set of libraries."
    if rest and top in installed:
        return _part_of(home, top, rest)
    row = _row(top, replacements.PYTHON)
    # Packages that are wanted by their own name: `import pillow`.
    package = replacements.PYTHON_MODULES.get(top.lower().replace("_", "-"), top)
    if package != top and package in installed:
        return f"The module is called {package}: import {package} instead of {top}."
    if row is not None:
        fitting = [each for each in row.split() if each.partition(".")[0] in installed and each != top]
        return _instead(top, fitting)
    return _similar(top, installed)


def _node(wanted: str) -> str:
    installed = environment.manifest(settings.load().environment or environment.location()).get("node_packages", ())
    top = wanted.partition("/")[0]
    row = _row(wanted, replacements.NODE) or _row(top, replacements.NODE) or ""
    # A slim environment has no packages, and without npm the full one has none either.
    fitting = [each for each in row.split(", ") if each in installed or not _row(each, replacements.NODE)]
    usable = [name for name in replacements.NODE_PACKAGES.split() if name in installed]
    modules = [*replacements.NODE_MODULES.split(), *usable]
    return _instead(wanted, [each for each in fitting if each]) or _similar(wanted, modules) or INSTALLED_ONLY


def _python_modules(packages: Iterable[str]) -> list[str]:
    names = [replacements.PYTHON_MODULES.get(package, package.replace("-", "_")) for package in packages]
    return [*names, *(name for name in sorted(sys.stdlib_module_names) if not name.startswith("_"))]


def _part_of(home: str, top: str, rest: str) -> str | None:
    """Suggest a part of a package that is installed; the environment on the host lists the parts."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    known, parts = [top], rest.split(".")
    folder = os.path.join(home, "lib", version, "site-packages", top)
    while parts and parts[0].isidentifier() and os.path.isdir(os.path.join(folder, parts[0])):
        folder = os.path.join(folder, parts[0])
        known.append(parts.pop(0))
    try:
        files = [name.partition(".")[0] for name in os.listdir(folder)]
    except OSError:
        files = []
    place = ".".join(known)
    if not parts or not parts[0].isidentifier():
        return None
    similar = _close(parts[0], [name for name in files if name.isidentifier() and not name.startswith("_")])
    if similar:
        return f"{place} is installed, but has no {parts[0]}: did you mean {_listed(f'{place}.{n}' for n in similar)}?"
    return f"{place} is installed, but has no {parts[0]}: check the name, or where it is in this version."


def _suggest(wanted: str, rows: str, modules: list[str], top: str) -> str | None:
    row = _row(wanted, rows) or _row(top, rows)
    if row is not None:
        return _instead(wanted, row.split(", ") if ", " in row or "(" in row else row.split(" "))
    return _similar(wanted, modules) or INSTALLED_ONLY


def _row(wanted: str, rows: str) -> str | None:
    """Return the right side of the row that names the library, whatever its case."""
    for row in rows.strip().split("\n"):
        names, _, instead = row.partition(": ")
        if wanted.lower() in names.lower().split():
            return instead
    return None


def _instead(wanted: str, others: list[str]) -> str | None:
    if not others:
        return None
    return f"{wanted} is not installed: use {_listed(others[:_MOST])} instead."


def _similar(wanted: str, names: Iterable[str]) -> str | None:
    similar = _close(wanted, list(names))
    return f"{wanted} is not installed: did you mean {_listed(similar)}?" if similar else None


def _close(wanted: str, names: list[str]) -> list[str]:
    from cloche.nearest import nearest

    return nearest(wanted, reversed(names), _MOST - 1, _LIKENESS)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
