"""Rust as people write it in chats: statements without `fn main`."""

from __future__ import annotations

import re

_QUIET = re.compile(
    r"""b?r(?P<marks>\#*)"(?s:.*?)(?:"(?P=marks)|\Z)
    |b?"(?:\\(?s:.)|[^"\\])*"?
    |b?'(?:\\(?:[^u]|u\{[0-9a-fA-F_]*\})[0-9a-fA-F]*|[^\\'\n])'
    |//[^\n]*
    |/\*(?s:.*?)(?:\*/|\Z)""",
    re.VERBOSE,
)
_ITEM = re.compile(
    r"(?:(?:pub(?:\s*\([^)]*\))?|default|async|const|unsafe|extern(?:\s*\"\s*\")?)\s+)*"
    r"(?:fn|struct|enum|union|trait|impl|use|mod|type|static|const|macro_rules|extern)\b"
)
_ATTRIBUTE = re.compile(r"\#!?\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]\s*")
_AT_THE_TOP = re.compile(r"(?:\s*(?:\#!\[[^\]]*\]|extern\s+crate\s+[^;]+;))+")  # what may not be in a function
_FUNCTION = re.compile(r"\bfn\s+\w+[^;{]*\{")
_FALLIBLE = "fn main() -> Result<(), Box<dyn std::error::Error>> { "
_PLAIN = "fn main() { "


def blanked(text: str) -> str:
    """The same without comments and what is in quotes: spaces instead, so that every place stays where it is."""

    def blank(match: re.Match[str]) -> str:
        inner = re.sub(r"[^\n]", " ", match[0])
        return inner if match[0].startswith("/") else f'"{inner[1:-1]}"'

    return _QUIET.sub(blank, text)


def wrapped(text: str) -> tuple[str, int, int] | None:
    """The same in a `main`, and in which line how many characters were put in front; None when that is not called for.

    Items may be in a function as well as outside, so that everything stays in its place.
    """
    quiet = blanked(text)
    if re.search(r"\bfn\s+main\b", quiet) or not _has_statements(quiet):
        return None
    top = _AT_THE_TOP.match(quiet)
    start = top.end() if top is not None else 0
    start += len(quiet[start:]) - len(quiet[start:].lstrip())
    fallible = _gives_up_early(quiet)
    end = "" if quiet.rstrip().endswith(";") else ";"  # what a last expression gives is nobody's
    before, after = (_FALLIBLE, f"\n{end} Ok(()) }}\n") if fallible else (_PLAIN, f"\n{end}}}\n")
    line_start = text.rfind("\n", 0, start) + 1
    return f"{text[:start]}{before}{text[start:]}{after}", text.count("\n", 0, line_start) + 1, len(before)


def _has_statements(quiet: str) -> bool:
    """Is there anything at its top level that is no item?"""
    start = depth = 0
    for match in re.finditer(r"[{}()\[\];]", quiet):
        if match[0] in "{([":
            depth += 1
        elif match[0] in "})]":
            depth -= 1
        if depth < 0:
            return False
        if depth == 0 and match[0] in "};":
            if not _is_item(quiet[start : match.end()]):
                return True
            start = match.end()
    return not _is_item(quiet[start:])


def _is_item(piece: str) -> bool:
    bare = _ATTRIBUTE.sub("", piece.strip().lstrip("};)")).strip()
    return not bare or bare == ";" or _ITEM.match(bare) is not None


def _gives_up_early(quiet: str) -> bool:
    """Is there a `?` outside of its functions?"""
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
