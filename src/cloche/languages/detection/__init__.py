"""What typical code of each language looks like: a file of marks per language, for when there is only text to go by.

A mark is a row of tokens, as `cloche.languages.detection.tokens` makes them, and its weight.  Words and signs stand for
themselves, capitals for a kind of token (`NAME`, `NUMBER`, `STRING` …), `BOL` and `EOL` for the ends of a line.  A mark
with `…` starts a line and has the rest later in it.  Some are about the whole text: `HAS …`, `LACKS …`, `LOOKS like …`,
`COMMENT…` (how comments start) and `IN…` (what strings contain).
"""

from __future__ import annotations

NAMES = (
    "bash",
    "c",
    "cpp",
    "go",
    "java",
    "javascript",
    "julia",
    "lua",
    "perl",
    "php",
    "python",
    "r",
    "ruby",
    "rust",
    "sql",
    "tcl",
    "typescript",
)
EXTENDS = {"typescript": "javascript", "cpp": "c"}
"""Whose code is a language's code, too: it is told from that one by its own marks alone."""


def marks(name: str) -> dict[str, float]:
    """The marks of a language, each with its weight."""
    own: dict[str, float] = __import__(f"cloche.languages.detection.{name}", fromlist=["MARKS"]).MARKS
    return {**marks(EXTENDS[name]), **own} if name in EXTENDS else own
