"""Estimates how many tokens a text has, and cuts a text to a number of tokens."""

from __future__ import annotations

import re


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has, rather too many than too few.

    The rules follow the tokenizers of the GPT family.  A word costs a token per six letters or part of six, and after
    the twelfth letter one per two and a half, because words that long are seldom words; capitals cost one per two;
    digits one per three; punctuation one per mark, and one per eight of a repeated mark.  Space is free before a word
    or a mark, otherwise it costs a token per sixteen.  Other alphabets cost one per character, Chinese, Japanese and
    the like one and a half, emoji three.  Plain prose thus has 4 characters per token, code 3, base64 1.7 and numbers
    1.4.  Words of random letters have more tokens than this estimates.
    """
    return -(-sum(_cost(match) for match in _PIECES.finditer(text)) // 2)


_PIECES = re.compile(
    r" ?(?P<word>[A-Z]?[a-z]+)| ?(?P<capitals>[A-Z]+)|(?P<digits>[0-9]{1,3})|(?P<space>\s+?(?= ?[^\s0-9])|\s+)"
    r"| ?(?P<mark>[\x21-\x7e])(?P=mark)*|(?P<other>.)",
    re.DOTALL,
)


def _cost(match: re.Match[str]) -> int:
    """The cost of a piece, in half tokens."""
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
    """Return whether a text has at most `limit` tokens."""
    return len(text) <= 16 * max(limit, 0) and estimate_tokens(text) <= limit


def cut(text: str, limit: int) -> str:
    """Keep both ends of a text, and say between them how much was left out; "" when there is no room even for that."""
    if fits(text, limit):
        return text
    # The same number of tokens can be more letters in one text than in another, so search for the length that fits.
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
