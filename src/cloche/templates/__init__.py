"""Small projects to start from.  Each is a folder here, with a `template.json` that describes it.

The files end in `.txt` so that no tool mistakes them for code of ours.  The tests run every template as it is.

Tests: tests/test_templates.py, tests/cli/test_new.py
"""

from __future__ import annotations

import os

from cloche.errors import Gone, InvalidRun
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Template", "everything", "find", "names", "write"]

_HERE = os.path.dirname(os.path.abspath(__file__))
_ABOUT, _SUFFIX = "template.json", ".txt"


class Template(Plain):
    """A project: its files by path, and the entry; pass them to `cloche.run(files=…, entry=…)` as they are."""

    name: str
    language: str
    description: str
    entry: str
    files: dict[str, str]

    def summary(self) -> dict[str, Any]:
        """Return everything except the contents of the files."""
        return {**self.as_dict(), "files": sorted(self.files)}


def names() -> list[str]:
    """List the names of all templates."""
    return sorted(name for name in os.listdir(_HERE) if os.path.exists(os.path.join(_HERE, name, _ABOUT)))


def everything() -> list[Template]:
    """Load all templates with their files."""
    return [find(name) for name in names()]


def find(name: str) -> Template:
    """Load a template by name."""
    from json import loads

    if name not in names():
        from cloche.nearest import did_you_mean

        hint = f"{did_you_mean(name, names())} The templates are {', '.join(names())}.".lstrip()
        raise Gone(f"There is no template {name!r:.100}.", hint=hint)
    folder = os.path.join(_HERE, name)
    about = loads(_read(os.path.join(folder, _ABOUT)))
    return Template(name, about["language"], about["description"], about["entry"], _files(folder))


def write(template: Template, folder: str | os.PathLike[str]) -> list[str]:
    """Write the template's files into a folder of this host and return their paths.

    If one of the files exists already, nothing is written.
    """
    root = os.fspath(folder)
    paths = {os.path.join(root, *name.split("/")): text for name, text in template.files.items()}
    for path in paths:
        if os.path.lexists(path):
            raise InvalidRun(f"{path} exists already.", hint="Choose another folder; nothing was written.")
    for path, text in paths.items():
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as problem:
            raise InvalidRun(f"{path} cannot be written: {problem.strerror}.", hint="Choose another folder.") from None
    return list(paths)


def _files(folder: str) -> dict[str, str]:
    found = {}
    for place, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            if name.endswith(_SUFFIX):
                found[os.path.relpath(path, folder).removesuffix(_SUFFIX)] = _read(path)
    return dict(sorted(found.items()))


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
