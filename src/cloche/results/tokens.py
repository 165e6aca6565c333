"""How many tokens a text is, and a text within so many."""

from __future__ import annotations

import re


def estimate_tokens(text: str) -> int:
    """How many tokens a text is, rather too many than too few.

    Follows how tokenizers of the GPT family split text: a word is a token for each six letters, or part of six (after
    the twelfth letter for two and a half: such words are seldom words), capitals one for two; digits one for three;
    punctuation one for each mark, a repeated one for eight; space is free before a word or a mark, else a token for
    sixteen; other alphabets one a character, Chinese, Japanese and the like one and a half, emoji three.  So plain
    prose comes to 4 characters a token, code to 3, base64 to 1.7, numbers to 1.4.  Words of random letters are more
    tokens than this says.
    """
    return -(-sum(_cost(match) for match in _PIECES.finditer(text)) // 2)


_PIECES = re.compile(
    r" ?(?P<word>[A-Z]?[a-z]+)| ?(?P<capitals>[A-Z]+)|(?P<digits>[0-9]{1,3})|(?P<space>\s+?(?= ?[^\s0-9])|\s+)"
    r"| ?(?P<mark>[\x21-\x7e])(?P=mark)*|(?P<other>.)",
    re.DOTALL,
)


def _cost(match: re.Match[str]) -> int:
    """Half tokens."""
    kind, text = match.lastgroup, match.group()
    if kind == "word":
        letters = len(text.lstrip(" "))
        return 2 * -(-letters // 6) if letters <= 12 else 4 + 2 * -(-2 * (letters - 12) // 5)
    if kind == "capitals":
        return 2 * -(-len(text.lstrip(" ")) // 2)
    if kind == "digits":
        return 2
    if kind == "space":
        return 2 + 2 * (len(text) // 16)
    if kind == "mark":
        return 2 + 2 * (len(text) // 8)
    return 2 if text < "\u0e00" or "\u2010" <= text <= "\u2600" else 3 if text < "\U00010000" else 6


def fits(text: str, limit: int) -> bool:
    """Is it so many tokens at most?"""
    return len(text) <= 16 * max(limit, 0) and estimate_tokens(text) <= limit


def cut(text: str, limit: int) -> str:
    """Both ends of a text, and between them how much was left out; nothing when there is no room for that."""
    if fits(text, limit):
        return text
    # Half a token's worth of one text can be more letters than that of another, so look for the length that fits.
    low, high = 0, min(len(text) - 1, 16 * max(limit, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(_ends(text, middle), limit) else (low, middle - 1)
    shorter = _ends(text, low)
    return shorter if low >= 16 and fits(shorter, limit) else ""


def _ends(text: str, length: int) -> str:
    tail = length // 2
    head = length - tail
    return f"{text[:head]} … {len(text) - length:,} characters left out … {text[len(text) - tail :]}"
