"""Makes untrusted text safe to read."""

from __future__ import annotations

import re
from unicodedata import category

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b[^\n]?"
)
# Direction marks, characters without width, and the invisible alphabet of tags.
_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+")
_UNSEEN_KINDS = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))  # of names; web/src/state/names.ts has the same
# Control characters, other line breaks, and lone surrogates.
_JUNK = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff0-\uffff]+")
_OURS = re.compile(
    r"^(?=\[(?:error|result|chart|table|image|html|stdout|stderr|files|tools|note|left out)\b|…)", re.MULTILINE
)


def clean(text: str) -> str:
    """Return the text that a terminal would show in the end, without escape sequences and invisible characters."""
    text = _ESCAPES.sub("", text)
    if "\r" in text:  # the text after a carriage return is written over the text before it
        lines = (line.split("\r") for line in text.split("\n"))
        text = "\n".join(next((part for part in reversed(parts) if part), "") for parts in lines)
    if "\b" in text:
        text = re.sub("[^\n\b]?\b", "", text)
    return _JUNK.sub("\ufffd", _UNSEEN.sub("", text))


def without_unseen(name: str) -> str:
    """Return the name of a file with `_` for characters that are invisible or reverse the order of others."""
    return "".join("_" if category(character) in _UNSEEN_KINDS else character for character in name)


def harmless(text: str) -> str:
    """Indent lines that look like one of our headings, or like our note that something was left out."""
    return _OURS.sub(" ", text)
