"""How source becomes a command: one file per language, found here by name."""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.languages.language import Language

_FILES = {
    "python": ("py", "python3"),
    "bash": ("sh", "shell"),
    "javascript": ("js", "node"),
    "typescript": ("ts",),
}


def find(name: str) -> Language:
    """The language of this name or alias."""
    wanted = name.strip().lower() if isinstance(name, str) else ""
    for file, aliases in _FILES.items():
        if wanted == file or wanted in aliases:
            language: Language = __import__(f"cloche.languages.{file}", fromlist=["LANGUAGE"]).LANGUAGE
            return language
    raise InvalidRun(f"The language {name!r} is unknown.", hint=f"Known are {', '.join(sorted(_FILES))}.")


def choose(language: str | None, code: str, file: str | None = None) -> str:
    """The language that was named; without one, what the code looks like."""
    if language is not None:
        return language
    from cloche.languages.detect import detect

    guess = detect(code, file=file)
    if guess.language in _FILES:
        return guess.language
    looks = f"This looks like {guess.language}, which cannot be run yet." if guess.language else ""
    raise InvalidRun(
        looks or "The language cannot be told from the code.", hint=f"Name it: {', '.join(sorted(_FILES))}."
    )


def names() -> list[str]:
    """All languages."""
    return sorted(_FILES)


def aliases(name: str) -> tuple[str, ...]:
    """By what other names a language is known."""
    return _FILES[name]
