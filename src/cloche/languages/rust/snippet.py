"""Completes Rust as people write it in chats: statements without `fn main`."""

from __future__ import annotations

import re

_COMMENT = r"/\*(?s:(?:(?!/\*|\*/).)*)\*/"  # block comments may be nested
_QUIET = re.compile(
    rf"""b?r(?P<marks>\#*)"(?s:.*?)(?:"(?P=marks)|\Z)
    |b?"(?:\\(?s:.)|[^"\\])*"?
    |b?'(?:\\(?:[^u]|u\{{[0-9a-fA-F_]*\}})[0-9a-fA-F]*|[^\\'\n])'
    |//[^\n]*
    |/\*(?s:(?:{_COMMENT}|(?!\*/).)*)(?:\*/|\Z)""",
    re.VERBOSE,
)
_ITEM = re.compile(
    r"(?:(?:pub(?:\s*\([^)]*\))?|default|async|const|unsafe|extern(?:\s*\"\s*\")?)\s+)*"
    r"(?:fn|struct|enum|union|trait|impl|use|mod|type|static|const|macro_rules|extern)\b"
)
_ATTRIBUTE = re.compile(r"\#!?\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]\s*")
_AT_THE_TOP = re.compile(r"(?:\s*(?:\#!\[[^\]]*\]|extern\s+crate\s+[^;]+;))+")  # may not be in a function
_ENDS_AT_SEMICOLON = re.compile(
    r"(?:pub(?:\s*\([^)]*\))?\s+)?(?:use|type|static|const)\b(?!\s+(?:unsafe|async|extern|fn)\b)"
)
_MOST_BLOCKS = 100  # of one piece: each block looks at the whole piece again
# No other function begins in its head: without that, a source of nothing but heads takes the square of its length.
_FUNCTION = re.compile(r"\bfn\s+\w+(?:(?!\bfn\s+\w)[^;{])*+\{")
_FALLIBLE = "fn main() -> Result<(), Box<dyn std::error::Error>> { "
_PLAIN = "fn main() { "


def blanked(text: str) -> str:
    """Replace comments and quoted text by spaces, so that every other character keeps its position."""

    def blank(match: re.Match[str]) -> str:
        inner = re.sub(r"[^\n]", " ", match[0])
        return inner if match[0].startswith("/") else f'"{inner[1:-1]}"'

    return _QUIET.sub(blank, text)


def wrapped(text: str) -> tuple[str, int, int] | None:
    """Wrap a source in a `main`; also return in which line how many characters were inserted.  None if not needed.

    The `main` begins with the first statement, so that modules find the items before it.  If items follow, it contains
    them: items may be in a function as well as outside, and everything keeps its position.
    """
    quiet = blanked(text)
    first = None if re.search(r"\bfn\s+main\b", quiet) else _beginning(quiet)
    if first is None:
        return None
    top = _AT_THE_TOP.match(quiet)
    start = max(first, top.end() if top is not None else 0)
    start += len(quiet[start:]) - len(quiet[start:].lstrip())
    fallible = _gives_up_early(quiet)
    end = "" if quiet.rstrip().endswith(";") else ";"  # nobody uses the value of the last expression
    before, after = (_FALLIBLE, f"\n{end} Ok(()) }}\n") if fallible else (_PLAIN, f"\n{end}}}\n")
    line_start = text.rfind("\n", 0, start) + 1
    return f"{text[:start]}{before}{text[start:]}{after}", text.count("\n", 0, line_start) + 1, len(before)


def _beginning(quiet: str) -> int | None:
    """Return where the first statement at the top level begins; 0 if items follow it; None if there is none."""
    start = depth = blocks = 0
    first: int | None = None
    for match in re.finditer(r"[{}()\[\];]|\Z", quiet):
        depth += {"{": 1, "(": 1, "[": 1, "}": -1, ")": -1, "]": -1}.get(match[0], 0)
        if depth < 0:
            return None if first is None else 0
        if depth or match[0] in (")", "]"):
            continue
        bare = _ATTRIBUTE.sub("", quiet[start : match.end()].strip().lstrip("};)")).strip()
        is_item = _ITEM.match(bare) is not None
        if is_item and match[0] == "}" and _ENDS_AT_SEMICOLON.match(bare) and blocks < _MOST_BLOCKS:
            blocks += 1
            continue
        if is_item and first is not None:
            return 0
        if not is_item and bare not in ("", ";") and first is None:
            first = start
        start, blocks = match.end(), 0
    return first


def _gives_up_early(quiet: str) -> bool:
    """Is there a `?` outside of all functions?"""
    rest, end = [], 0
    for match in _FUNCTION.finditer(quiet):
        if match.start() < end:
            continue
        rest.append(quiet[end : match.start()])
        end = _closing(quiet, match.end() - 1)
    rest.append(quiet[end:])
    return re.search(r"[\w)\]}]\s*\?\s*[;.)\],}]", "".join(rest)) is not None


def _closing(quiet: str, start: int) -> int:
    depth = 0
    for match in re.finditer(r"[{}]", quiet[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.end()
    return len(quiet)
