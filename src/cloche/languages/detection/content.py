"""Detects the language of a text by its content: counts, weighs and compares the marks in it."""

from __future__ import annotations

from math import exp

from cloche.languages.detection import foreign
from cloche.languages.detection.marks import EXTENDS, detectable, marks
from cloche.languages.detection.tokens import KINDS, TokenizedText
from cloche.languages.detection.whole_text import about

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cloche.languages.detection.tokens import Token

    Matches = list[tuple[str, str, float]]  # language, mark and weight

_HERE = "\0here"  # the key of the marks that end at a node
_LONGEST_LINE = 60  # tokens of a line that are searched for the rest of a mark with …
_DOUBT = 1.6  # weight of the guess that the text is in no language
_HANDICAP = 0.5  # of a language that extends another: without marks of its own, the text is in the other
_SHARPNESS = 0.8  # how strongly weight turns into confidence


def weigh(code: str) -> list[tuple[float, str, list[str]]]:
    """List what the text could be, the likeliest first: confidence, name and the weightiest marks.

    The name of anything that is not one of our languages starts with `=`; the empty name stands for doubt.
    """
    reading = TokenizedText(code)
    counts: dict[tuple[str, str], tuple[float, int]] = {}
    for found in _marks_in(reading):
        for name, mark, weight in found:
            before = counts.get((name, mark), (weight, 0))
            counts[name, mark] = (weight, before[1] + 1)
    totals, reasons = dict.fromkeys(EXTENDS, -_HANDICAP), dict[str, list[tuple[float, str]]]()
    for (name, mark), (weight, times) in counts.items():
        share = weight * min(times, 4) ** 0.5
        totals[name] = totals.get(name, 0.0) + share
        reasons.setdefault(name, []).append((share, mark))
    for name, base in EXTENDS.items():
        if totals[name] <= totals.get(base, 0.0) - _HANDICAP + 0.001:
            del totals[name]  # it has no evidence that the other does not have
    totals[""] = _DOUBT
    most = max(totals.values())
    likely = {name: exp((total - most) * _SHARPNESS) for name, total in totals.items()}
    whole = sum(likely.values())
    ranked = sorted(((part / whole, name) for name, part in likely.items()), reverse=True)
    return [
        (part, name, [mark for _, mark in sorted(reasons.get(name, ()), reverse=True)[:3]]) for part, name in ranked
    ]


class _Marks:
    """All marks of all languages, arranged so that one pass over a text finds them."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.gaps: dict[str, list[tuple[list[list[str]], Matches]]] = {}
        self.about: dict[str, Matches] = {}
        for name in detectable():
            self._add(name, marks(name))
        for name, found in foreign.MARKS.items():
            self._add(f"={name}", found)

    def _add(self, name: str, found: dict[str, float]) -> None:
        for mark, weight in found.items():
            entry = (name, mark, weight)
            if mark.startswith(("HAS ", "LACKS ", "LOOKS ", "COMMENT", "IN#", "IN$", "IN@", "IN%", "IN`", "IN{")):
                self.about.setdefault(mark, []).append(entry)
            elif "…" in mark:
                pieces = [[_key(part) for part in piece.split()] for piece in mark.split("…")]
                self.gaps.setdefault(pieces[0][0], []).append((pieces, [entry]))
            else:
                node = self.rows
                for part in mark.split():
                    node = node.setdefault(_key(part), {})
                node.setdefault(_HERE, []).append(entry)


def _key(part: str) -> str:
    return f"\0{part}" if part in KINDS else part


_all: list[_Marks] = []  # filled on first use


def _marks_in(reading: TokenizedText) -> Iterator[Matches]:
    if not _all:
        _all.append(_Marks())
    known = _all[0]
    for note in about(reading):
        yield known.about.get(note, [])
    for line in reading.lines:
        keys = [_keys(token) for token in line]
        for place in range(len(keys)):
            # After a dot a word is the name of a member, whatever it means elsewhere.
            if place == 0 or line[place - 1][0] != "." or line[place][1] != "NAME":
                yield from _rows(known.rows, keys, place)
        for key in keys[1]:
            for pieces, found in known.gaps.get(key, ()):
                if _has(keys[1:_LONGEST_LINE], pieces):
                    yield found


def _keys(token: Token) -> tuple[str, ...]:
    value, kind = token
    if kind in ("fSTRING", "TRIPLE"):
        return (f"\0{kind}", "\0STRING")
    if kind == "STRING":
        return ("\0STRING",)
    return (value, f"\0{kind}") if kind and value else (value or f"\0{kind}",)


def _rows(node: dict[str, Any], keys: list[tuple[str, ...]], place: int) -> Iterator[Matches]:
    """Find the marks that start at this token."""
    if _HERE in node:
        yield node[_HERE]
    if place < len(keys):
        for key in keys[place]:
            below = node.get(key)
            if below is not None:
                yield from _rows(below, keys, place + 1)


def _has(keys: list[tuple[str, ...]], pieces: list[list[str]]) -> bool:
    """Does the line start with the first piece and contain the others later, in this order?"""
    place = 0
    for number, piece in enumerate(pieces):
        last = len(keys) - len(piece)
        tries = [0] if number == 0 else [last] if piece[-1] == "\0EOL" else range(place, last + 1)
        for start in tries:
            if place <= start <= last and all(part in keys[start + i] for i, part in enumerate(piece)):
                place = start + len(piece)
                break
        else:
            return False
    return True
