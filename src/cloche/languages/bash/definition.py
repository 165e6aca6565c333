"""Bash."""

from __future__ import annotations

import re

from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Project
from cloche.languages.toolchain import Toolchain
from cloche.model.result import Diagnostic

# `main.sh: line 3: syntax error near …`, then perhaps the line itself.  Errors in `eval` or arithmetic end no program.
_PLACED = r"^(?P<file>[^\n:]+): line (?P<line>\d+): (?P<message>(?:syntax error|unexpected EOF while)[^\n]*)"
_LAST = re.compile(_PLACED + r"(?:\n[^\n:]+: line \d+: `[^\n]*')?\s*\Z", re.MULTILINE)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's errors."""
    return by_lines(output, _PLACED, project)


def explain(stderr: str) -> Failure | None:
    """Find the error of a script that could not be parsed; any other exit code is the script's own."""
    found = _LAST.search(stderr)
    return Failure("syntax", "SyntaxError", found["message"], found.group().rstrip()) if found else None


LANGUAGE = Language(
    name="bash",
    title="Bash",
    main="main.sh",
    extensions=(".sh", ".bash"),
    aliases=("sh", "shell", "shellscript"),
    toolchain=Toolchain(programs=("bash",), apt=("bash",)),
    command=("bash",),
    entries=("run.sh",),
    diagnose=diagnose,
    explain=explain,
    hello='echo "Hello from Bash"\n',
    ahead="getuid",  # after this call Bash starts to count SECONDS
    kernel={"fork": "bash"},
)
