"""Turns the output of compilers into diagnostics."""

from __future__ import annotations

import re

from cloche.languages.language import HOME
from cloche.model.result import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.language import Project

MAX_DIAGNOSTICS = 500
# `main.c:3:5: error: expected ';'`, the format of GCC, Clang and many other compilers
COMMON = (
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? *"
    r"(?:fatal )?(?P<severity>error|warning|note): (?P<message>.*?)(?: \[(?P<code>[-\w=+]+)\])?$"
)


def by_lines(output: str, pattern: str, project: Project, severity: str = "error") -> tuple[Diagnostic, ...]:
    """Make a diagnostic of each match; the pattern has the groups `file`, `line`, `message`, and perhaps others."""
    found = []
    for match in re.finditer(pattern, output, re.MULTILINE):
        parts = match.groupdict()
        found.append(
            Diagnostic(
                shown_name(parts.get("file") or "", project),
                number(parts.get("line")),
                number(parts.get("column")),
                (parts.get("message") or "").strip()[:4000],
                parts.get("severity") or severity,
                parts.get("code") or "",
            )
        )
        if len(found) >= MAX_DIAGNOSTICS:
            break
    return tuple(found)


def shown_name(file: str, project: Project) -> str:
    """Return a file's path as its author knows it: relative to the project, or the bare name if code was given."""
    for folder in (project.root, HOME):
        if file.startswith(f"{folder}/"):
            return file.removeprefix(f"{folder}/")
    return file.removeprefix("./")


def number(text: str | None) -> int:
    """Parse a line or column number; 0 if it is missing or impossible."""
    return int(text) if text and len(text) <= 9 and text.isdigit() else 0
