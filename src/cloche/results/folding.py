"""Shortens many lines to few: folds repeated lines, keeps both ends of a long text and the beginning of a list."""

from __future__ import annotations

import re

from cloche.results.cleaning import clean, harmless
from cloche.results.tokens import cut, estimate_tokens, fits

KEPT = 50_000  # characters at each end of a long text; the middle is never looked at


def folded(text: str, limit: int) -> str:
    """Shorten a text to at most `limit` tokens."""
    return FoldedLines(text).within(limit)


class FoldedLines:
    """The cleaned lines of a text, or of both ends of a very long one, folded once for any number of limits."""

    def __init__(self, text: str) -> None:
        text = text.strip("\n")
        middle = max(0, len(text) - 2 * KEPT)
        lines = _clean_lines(text[:KEPT] if middle else text)
        if middle:
            lines.append(_left_out(text.count("\n", KEPT, len(text) - KEPT), middle))
            lines += _clean_lines(text[-KEPT:])
        self._lines = _without_repeats(lines, lines, 3)
        self._fewer = _without_repeats(self._lines, [_skeleton(line) for line in self._lines], 4)

    def within(self, limit: int) -> str:
        """Return the lines if they fit; otherwise fold similar lines too, and if need be leave out the middle."""
        for lines in (self._lines, self._fewer):
            whole = "\n".join(lines)
            if fits(whole, limit):
                return whole
        head, tail = _both_ends(self._fewer, limit - 14)  # the rest is for the line that says how much was left out
        hidden = self._fewer[len(head) : len(self._fewer) - len(tail)]
        marker = [_left_out(_count(hidden), sum(map(_characters, hidden)))] if hidden else []
        return cut("\n".join([*head, *marker, *tail]), limit)


def listed(lines: list[str], limit: int, what: str) -> str:
    """Return as many lines as fit, and the number of those left out."""
    whole = "\n".join(filter(None, lines))
    if all(lines) and fits(whole, limit):
        return whole
    room = limit - 8
    kept: list[str] = []
    for line in lines:
        room -= estimate_tokens(line) + 1
        if room < 0 or not line:
            break
        kept.append(line)
    hidden = len(lines) - len(kept)
    marker = f"… {hidden:,} {'more ' if kept else ''}{what if hidden != 1 else what[:-1]} left out"
    return cut("\n".join([*kept, marker]), limit)


def _clean_lines(text: str) -> list[str]:
    return [line.rstrip() for line in harmless(clean(text)).split("\n")]


def _both_ends(lines: list[str], room: int) -> tuple[list[str], list[str]]:
    """Return as many lines from the beginning and from the end as fit, each end with half of the room."""
    longest = max(room // 3, 12)
    head: list[str] = []
    tail: list[str] = []
    used_head = used_tail = 0
    while len(head) + len(tail) < len(lines):
        is_heads_turn = used_head <= used_tail
        line = cut(lines[len(head)] if is_heads_turn else lines[-1 - len(tail)], longest)
        cost = estimate_tokens(line) + 1
        if used_head + used_tail + cost > room:
            break
        if is_heads_turn:
            head.append(line)
            used_head += cost
        else:
            tail.append(line)
            used_tail += cost
    return head, tail[::-1]


def _skeleton(line: str) -> str:
    """Return a line without its numbers and progress bars, so that lines that differ only in these are equal."""
    return re.sub(r"[#=>\-.*█▉▊▋▌▍▎▏━╸╺ ]{2,}", " ", re.sub(r"\d+(?:[.,:]\d+)*", "0", line))


def _without_repeats(lines: list[str], keys: list[str], least: int) -> list[str]:
    """Fold runs of at least `least` lines with the same key to the first, their number, and the last if it differs."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while end < len(lines) and keys[end] == keys[at] and not lines[at].startswith("… "):
            end += 1
        run = lines[at:end]
        if len(run) < least or not run[0]:
            kept += run if run[0] else run[:1]
        else:
            last = run[-1:] if run[-1] != run[0] else []
            kept += [run[0], f"… {len(run) - 1 - len(last):,} more lines like this", *last]
        at = end
    return kept


def _left_out(lines: int, characters: int) -> str:
    return f"… {f'{lines:,} lines, ' if lines else ''}{characters:,} characters left out"


_FOLDED = re.compile(r"… (?:([\d,]+) (?:more )?lines)?(?: like this)?(?:,? ?([\d,]+) characters left out)?$")


def _count(lines: list[str]) -> int:
    """The number of lines that these stand for."""
    matches = (_FOLDED.match(line) for line in lines)
    return sum(int((match[1] or "0").replace(",", "")) if match else 1 for match in matches)


def _characters(line: str) -> int:
    match = _FOLDED.match(line)
    return int((match[2] or "0").replace(",", "")) if match else len(line) + 1
