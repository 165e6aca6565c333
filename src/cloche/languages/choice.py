"""Chooses the language of a run that names none."""

from __future__ import annotations

from cloche import languages
from cloche.errors import InvalidRun
from cloche.languages.detection import detect


def language_of(code: str | None, file: str | None) -> str:
    """Return the language that the file's name belongs to, or else the code; without a file, Python."""
    if file is None:
        return "python"
    return languages.by_name(file) or detected(code or "", file)


def detected(code: str, file: str | None = None, label: str = "") -> str:
    """Detect the language from the label of a Markdown fence, from the file's name, or from the code."""
    guess = detect(code, file=file, label=label)
    if guess.language:
        return guess.language
    names = ", ".join(languages.names())
    raise InvalidRun("The language of the code could not be detected.", hint=f"Name the language: {names}.")
