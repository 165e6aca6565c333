"""Marks of a text as a whole: how its lines end, whether it looks like data or prose."""

from __future__ import annotations

from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.languages.detection.tokens import Token, TokenizedText

_JSON_SIGNS = frozenset("{}[],:-")
_JSON_WORDS = frozenset(("true", "false", "null"))
_OPERANDS = ("NAME", "NUMBER", "STRING", "TRIPLE")
_OPERATORS = frozenset((*"+-*/%=<>()[]{},.:&|~@", "**", "==", "!=", "<=", ">=", "[[", "]]", "+="))
_BETWEEN = frozenset(("and", "or", "not", "in", "is", "if", "else", "return"))
_PROSE_SIGNS = frozenset(".,;:!?'-()\u2014\u2013\u2019")


def about(reading: TokenizedText) -> Iterator[str]:
    """Yield the marks of the whole text, each as often as it counts."""
    for note, times in reading.notes.items():
        yield from [note] * min(times, 4)
    lines = [line[1:-1] for line in reading.lines]
    ended = sum(line[-1][0] == ";" for line in lines)
    if lines and ended >= 0.3 * len(lines):
        yield "HAS semicolons"
    if len(lines) > 1 and not ended:
        yield "LACKS semicolons"
    for name, looks in (
        ("JSON", _json),
        ("prose", _prose),
        ("table", _table),
        ("log", _log),
        ("settings", _settings),
        ("expression", _expression),
    ):
        if lines and looks(lines):
            yield f"LOOKS like {name}"


def _json(lines: list[list[Token]]) -> bool:
    tokens = [token for line in lines for token in line]
    return tokens[0][0] in ("{", "[", "[[") and all(
        kind in ("STRING", "NUMBER") or value in _JSON_WORDS or (not kind and set(value) <= _JSON_SIGNS)
        for value, kind in tokens
    )


def _prose(lines: list[list[Token]]) -> bool:
    """Do words follow words, with few signs other than those of prose?"""
    words = pairs = signs = 0
    for line in lines:
        kinds = [kind for _, kind in line]
        words += kinds.count("NAME")
        pairs += sum(a == b == "NAME" for a, b in pairwise(kinds))
        signs += sum(not kind and value not in _PROSE_SIGNS for value, kind in line)
    return words >= 5 and pairs >= 0.6 * words and signs <= 0.05 * words


def _table(lines: list[list[Token]]) -> bool:
    """Does each line have the same number of commas, and no other signs?"""
    commas = {sum(value == "," for value, _ in line) for line in lines}
    tokens = (token for line in lines for token in line)
    plain = all(kind in ("NAME", "NUMBER", "STRING") or value in (",", "-", ".", ":", "/") for value, kind in tokens)
    return len(lines) > 1 and len(commas) == 1 and commas != {0} and plain


def _log(lines: list[list[Token]]) -> bool:
    """Do most lines start with a date or a time?"""
    dated = 0
    for line in lines:
        start = [token for token in line[:6] if token[0] != "["]
        dated += [kind for _, kind in start[:4:2]] == ["NUMBER", "NUMBER"] and start[1][0] in ("-", ":", "/", ".")
    return len(lines) > 1 and dated > 0.5 * len(lines)


def _settings(lines: list[list[Token]]) -> bool:
    """Does every line set a name in capitals?"""
    names = [line[0][0] for line in lines if len(line) > 2 and line[1][0] == "=" and not line[2][0].startswith("$")]
    return len(names) == len(lines) > 1 and all(name.isupper() for name in names)


def _expression(lines: list[list[Token]]) -> bool:
    """Is it a few lines that a calculator could take: names, calls, sums and assignments?"""
    if len(lines) > 8:
        return False
    found = False
    for line in lines:
        beside = pairwise(line)
        if any(a[1] == "NAME" and (b[1] == "NAME" or b[0] == "{") and not {a[0], b[0]} & _BETWEEN for a, b in beside):
            return False
        if line[0][0] == "-" or (len(line) > 1 and line[1][0] == ":"):
            return False
        if not all(kind in _OPERANDS or value in _OPERATORS for value, kind in line):
            return False
        found = found or (any(kind for _, kind in line) and any(not kind and value != "," for value, kind in line))
    return found
