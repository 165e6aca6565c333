"""Shows names that others chose: what a terminal would obey, or a reader would not see, becomes a question mark."""

from __future__ import annotations


def printable(text: str, most: int = 200) -> str:
    """Return at most so many characters of a text, without control characters, escape sequences and their like."""
    shown = "".join(each if each.isprintable() else "?" for each in text[:most])
    return shown if len(text) <= most else f"{shown}…"
