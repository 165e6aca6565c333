"""Loads the marks of each language: what its typical code looks like, for text without a label or a file name.

A mark is a row of tokens, as `tokens.py` makes them, and a weight.  Words and signs stand for themselves, capitals for
a kind of token (`NAME`, `NUMBER`, `STRING` …), `BOL` and `EOL` for the beginning and the end of a line.  A mark with
`…` matches when a line starts with the first part and contains the other parts later.  Some marks are about the whole
text: `HAS …`, `LACKS …`, `LOOKS like …`, `COMMENT…` (how comments start) and `IN…` (what strings contain).
"""

from __future__ import annotations

from cloche import languages

EXTENDS = {"typescript": "javascript", "cpp": "c"}
"""Languages whose code contains that of another language: their own marks alone tell the two apart."""


def detectable() -> list[str]:
    """List the languages that have marks."""
    return [name for name in languages.names() if languages.has_file(name, "detection.py")]


def marks(name: str) -> dict[str, float]:
    """Return the marks of a language with their weights."""
    own: dict[str, float] = __import__(f"cloche.languages.{name}.detection", fromlist=["MARKS"]).MARKS
    return {**marks(EXTENDS[name]), **own} if name in EXTENDS else own
