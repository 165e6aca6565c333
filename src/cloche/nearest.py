"""Finds the name that somebody meant: every "Did you mean" of Cloche comes from here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LIKENESS = 0.6
_LONGEST = 100  # characters: comparing long texts takes long, and no name is longer


def nearest(word: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> list[str]:
    """Return the known names that look like the word, the likeliest first."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    wanted = word[:_LONGEST].lower()
    found = get_close_matches(wanted, by_lower, most, likeness)
    if not found:  # two letters that were typed in the wrong order: short names are too unlike then
        found = [name for name in by_lower if sorted(name) == sorted(wanted)][:most]
    return [by_lower[name] for name in found]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the question whether the nearest name was meant; `otherwise` if none is near."""
    found = nearest(word, known)
    return f"Did you mean {found[0]}?" if found else otherwise
