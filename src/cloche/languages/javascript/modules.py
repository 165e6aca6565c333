"""Finds out whether a source is an ES module, and whether it awaits outside of functions, without running it.

Sources are untrusted and are read outside of the sandbox, so everything here is bounded.
"""

from __future__ import annotations

import re

LONGEST = 64 << 10  # characters of a source that are read
_MOST_BRACES = 4096
_REGEX = r"/(?![/*])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,100}\]){1,300}/[a-z]*"
# A string: its quotation mark and its contents.  A long one need not end, or each mark in it would be tried again.
_STRING = r"{0}(?:{1}|\\.){{0,400}}{0}|{0}(?:{1}|\\.){{400}}(?:{1}|\\.)*+{0}?"
_STRINGS = "|".join(_STRING.format(*each) for each in (('"', r'[^"\\\n]'), ("'", r"[^'\\\n]"), ("`", r"[^`\\]")))
_NOT_CODE = re.compile(
    rf"/\*.*?(?:\*/|\Z)|//[^\n]*|{_STRINGS}"
    rf"|(?P<before>[(,=:\[!&|?{{}};\n][ \t]{{0,40}}){_REGEX}",
    re.DOTALL,
)
_MODULE = re.compile(
    r"^[ \t]*(?:import\s*(?:\"|\{|\*|type\s|[\w$]+\s*(?:,|\bfrom\b))"
    r"|export\s*(?:\{|\*|default\b|const\b|let\b|var\b|function\b|async\b|class\b|type\b|interface\b|enum\b|abstract\b))"
    r"|\bimport\.meta\b",
    re.MULTILINE,
)
_BRACES = re.compile(r"(?P<await>(?<![.\w$])await\b(?!\s*(?:[:=,;)\]}]|$)))|(?P<open>\{)|(?P<close>\})")
_STATEMENT = re.compile(r"\b(?:if|for|for\s+await|while|switch|catch|with)\s*$")
_BLOCK_WORD = re.compile(r"(?:\b(?:try|else|finally|do|return)|[;{}(\[,=:?&|]|^)\s*$")


def code_of(source: str) -> str:
    """Remove comments and empty the strings: what looks like code in the result is code."""
    return _NOT_CODE.sub(_placeholder, source[:LONGEST])


def _placeholder(found: re.Match[str]) -> str:
    if found["before"] is not None:
        return found["before"] + '""'
    return " " if found[0].startswith("/") else '""'


def is_module(code: str) -> bool:
    """Does the code import or export as ES modules do?"""
    return _MODULE.search(code) is not None


def waits(code: str) -> bool:
    """Is there an `await` outside of all functions?  When in doubt, yes."""
    inside = 0  # depth of nested functions
    stack: list[int] = []
    for count, found in enumerate(_BRACES.finditer(code)):
        if count > _MOST_BRACES or (found["await"] and inside == 0):
            return True
        if found["await"]:
            continue
        if found["open"]:
            step = 0 if _is_block(code, found.start()) else 1
            stack.append(step)
            inside += step
        elif stack:
            inside -= stack.pop()
    return False


def _is_block(code: str, brace: int) -> bool:
    """Is this the brace of a block or an object, and not of the body of a function or a class?"""
    before = code[max(0, brace - 500) : brace].rstrip()
    if before.endswith("=>"):
        return False
    if not before.endswith(")"):
        return _BLOCK_WORD.search(before) is not None
    depth = 0
    for position in range(len(before) - 1, -1, -1):
        if before[position] == ")":
            depth += 1
        elif before[position] == "(":
            depth -= 1
            if depth == 0:
                return _STATEMENT.search(before[:position]) is not None
    return False
