"""Finds the entry of a project that does not name it, and the path for code that comes with files."""

from __future__ import annotations

from _collections_abc import Collection, Mapping

from cloche import languages
from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.language import Language

    Data = bytes | bytearray | memoryview

_FOLDERS = ("", "src/", "cmd/", "app/", "src/main/java/")


def choose_entry(
    language: str | None, entry: str | None, files: Collection[str], texts: Mapping[str, Data] | None = None
) -> tuple[str, str]:
    """Choose a project's language and entry from the request, the project's manifests, and the names of its files."""
    if not files:
        raise InvalidRun("There is nothing to run.", hint="Pass code, or files and the name of the entry among them.")
    if entry is not None:
        if entry not in files:
            raise InvalidRun(f"The entry {entry!r:.100} is not among the files.", hint="Name one of the files.")
        if language is None:
            from cloche.languages.choice import language_of

            language = language_of(bytes((texts or {}).get(entry, b"")).decode(errors="replace"), entry)
        return language, entry
    candidates = [languages.find(language)] if language is not None else _by_manifest(files) + languages.everything()
    for each in candidates:
        found = _declared(each, files, texts or {}) or _usual(each, files)
        if found is not None:
            return each.name, found
    for each in candidates:
        own = [name for name in files if name.endswith(each.extensions)]
        if len(own) == 1 and (language is not None or len(files) == 1):
            return each.name, own[0]
    raise InvalidRun("It is not clear which file of this project to run.", hint=f"Name the entry: {_some(files)}.")


def place_among(language: Language, files: Collection[str]) -> str | None:
    """Return the path for code that comes with files.

    It is placed beside them if it can import some of them and its name is not taken; otherwise None.
    """
    endings = (*language.extensions, *language.companions)
    can_import = any(name.endswith(endings) or name in language.manifests for name in files)
    return language.main if can_import and language.main not in files else None


def _by_manifest(files: Collection[str]) -> list[Language]:
    return [each for each in languages.everything() if any(name in files for name in each.manifests)]


def _declared(language: Language, files: Collection[str], texts: Mapping[str, Data]) -> str | None:
    if language.manifest_entries is None:
        return None
    for manifest in language.manifests:
        text = bytes(texts[manifest]).decode(errors="replace") if manifest in texts else ""
        for name in language.manifest_entries(manifest, text) if text else ():
            if name in files and name.endswith(language.extensions):
                return name
    return None


def _usual(language: Language, files: Collection[str]) -> str | None:
    for name in (language.main, *language.entries):
        for folder in _FOLDERS:
            if f"{folder}{name}" in files:
                return f"{folder}{name}"
    for name in (language.main, *language.entries):
        deep = [file for file in files if file.endswith(f"/{name}")]
        if len(deep) == 1:  # cmd/tool/main.go, src/main/java/com/example/App.java
            return deep[0]
    return None


def _some(files: Collection[str]) -> str:
    shown = sorted(files)[:10]
    return ", ".join(shown) + (" …" if len(files) > len(shown) else "")
