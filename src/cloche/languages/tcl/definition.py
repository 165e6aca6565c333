"""Tcl."""

from __future__ import annotations

import os

from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Plan, Project
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_VERSION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "version.tcl")
_TRACE = ("\n    while executing\n", "\n    (parsing expression ", "\n    while compiling\n")
_PLACED = r"(?s)\A(?P<message>[^\n]*)\n(?:.*\n)?    \(file \"(?P<file>[^\n\"]*)\" line (?P<line>\d+)\)$"
# Tcl parses while it runs: these are its errors for text that cannot be a command.
_PARSER = ("missing ", "extra characters after close-", "unmatched open ", "invalid bareword", "unbalanced ")


def plan(project: Project, found: FoundTools) -> Plan:
    return Plan(run=(found.first, project.entry))


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's errors."""
    return by_lines(output, _PLACED, project)


def explain(stderr: str) -> Failure | None:
    """Find the uncaught error: its message, and its stack trace."""
    starts = [place for place in (stderr.rfind(sign) for sign in _TRACE) if place >= 0]
    if not starts or '\n    (file "' not in stderr:
        return None
    start = stderr.rfind("\n", 0, min(starts)) + 1
    if stderr.startswith("in expression ", start):  # the error's second line
        start = stderr.rfind("\n", 0, max(start - 1, 0)) + 1
    text = stderr[start:].rstrip("\n")
    message = text.split("\n", 1)[0]
    if message.startswith(_PARSER):
        return Failure("syntax", "SyntaxError", message, text)
    return Failure("runtime", "error", message, text)


LANGUAGE = Language(
    name="tcl",
    title="Tcl",
    main="main.tcl",
    extensions=(".tcl",),
    aliases=("tclsh",),
    toolchain=Toolchain(
        programs=("tclsh",),
        instead=(("tclsh9.0",), ("tclsh8.7",), ("tclsh8.6",)),
        version=(_VERSION,),  # tclsh has no option for its version
        least="8.5",
        apt=("tcl",),
        otherwise="Install Tcl 8.5 or later.",
    ),
    plan=plan,
    entries=("app.tcl", "run.tcl"),
    diagnose=diagnose,
    explain=explain,
    ahead="files",
    hello='puts "Hello from Tcl"\n',
)
