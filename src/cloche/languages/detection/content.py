"""The language of a text that comes without a name: its marks are counted, weighed and compared."""

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

    Found = list[tuple[str, str, float]]  # whose mark, which, and its weight

_HERE = "\0here"  # what ends at a node
_LONGEST_LINE = 60  # tokens in which the rest of a mark with … is looked for
_DOUBT = 1.6  # what counts against every guess
_HANDICAP = 0.5  # of a language that extends another: without marks of its own it is the other
_SHARPNESS = 0.8  # how weight becomes confidence


def weigh(code: str) -> list[tuple[float, str, list[str]]]:
    """What this text could be, the likeliest first: confidence, name and the weightiest marks.

    The name of what is none of our languages starts with `=`; no name at all stands for the doubt.
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
            del totals[name]  # nothing speaks for it that does not speak for the other
    totals[""] = _DOUBT
    most = max(totals.values())
    likely = {name: exp((total - most) * _SHARPNESS) for name, total in totals.items()}
    whole = sum(likely.values())
    ranked = sorted(((part / whole, name) for name, part in likely.items()), reverse=True)
    return [
        (part, name, [mark for _, mark in sorted(reasons.get(name, ()), reverse=True)[:3]]) for part, name in ranked
    ]


class _Marks:
    """All marks of all languages, arranged so that a text is gone through once."""

    def __init__(self) -> None:
        self.rows: dict[str, Any] = {}
        self.gaps: dict[str, list[tuple[list[list[str]], Found]]] = {}
        self.about: dict[str, Found] = {}
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


_all: list[_Marks] = []  # made when first needed


def _marks_in(reading: TokenizedText) -> Iterator[Found]:
    if not _all:
        _all.append(_Marks())
    known = _all[0]
    for note in about(reading):
        yield known.about.get(note, [])
    for line in reading.lines:
        keys = [_keys(token) for token in line]
        for place in range(len(keys)):
            # After a dot a word is somebody's member, whatever it means elsewhere.
            if place == 0 or line[place - 1][0] != "." or line[place][1] != "NAME":
                yield from _rows(known.rows, keys, place)
        for key in keys[1]:
            for pieces, found in known.gaps.get(key, ()):
                if _has(keys[1:_LONGEST_LINE], pieces):
                    yield found


def _keys(token: Token) -> tuple[str, ...]:
    said, kind = token
    if kind in ("fSTRING", "TRIPLE"):
        return (f"\0{kind}", "\0STRING")
    if kind == "STRING":
        return ("\0STRING",)
    return (said, f"\0{kind}") if kind and said else (said or f"\0{kind}",)


def _rows(node: dict[str, Any], keys: list[tuple[str, ...]], place: int) -> Iterator[Found]:
    """The marks that start at this token."""
    if _HERE in node:
        yield node[_HERE]
    if place < len(keys):
        for key in keys[place]:
            below = node.get(key)
            if below is not None:
                yield from _rows(below, keys, place + 1)


def _has(keys: list[tuple[str, ...]], pieces: list[list[str]]) -> bool:
    """Does the line start with the first piece and have the others later, in this order?"""
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
