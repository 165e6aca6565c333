"""Reads the errors that Node prints: which error, where, and whether the program ever started."""

from __future__ import annotations

import re

from cloche.languages.diagnostics import number, shown_name
from cloche.languages.language import Failure, Project
from cloche.model.result import Diagnostic

_LAST_WORDS = "\nNode.js v"  # the last line of Node's report of an uncaught error
# The place, the line of code, and the mark below it; Node's report begins with them.
_PLACE = re.compile(
    r"^(?:file://)?(?P<file>(?:/|node:)[^\n]*?):(?P<line>\d+)\n[^\n]*\n(?P<mark>[ \t]*)\^+[ \t]*\n",
    re.MULTILINE,
)
_ERROR = re.compile(
    r"^(?:Uncaught )?(?P<name>[A-Za-z_$][\w$.]*)(?: \[\w+\])?(?:: (?P<message>.*?))?(?=\n    at |\n?\Z| \{\n)",
    re.DOTALL,
)
_BEGINNING = re.compile(r"^(?=[A-Za-z_$][\w$.]*(?: \[\w+\])?: .*\n    at )", re.MULTILINE)
_THROWN = re.compile(r"^(?P<message>.*?)(?:\n\(Use `node --trace-uncaught|\n?\Z)", re.DOTALL)
_HEAP = re.compile(r"^FATAL ERROR: .*(?:heap out of memory|Allocation failed)", re.MULTILINE)
_FRAME = re.compile(r"^    at (?:.* \()?(?P<place>[^()\n]+)\)?$", re.MULTILINE)
_LONGEST = 64 << 10  # characters at the end of standard error that are searched


def explain(stderr: str) -> Failure | None:
    """Find the error that Node reports at the end of standard error."""
    if _HEAP.search(stderr):
        return Failure("runtime", "OutOfMemoryError", "JavaScript heap out of memory", stderr[-_LONGEST:])
    printed = stderr.rstrip()
    end = printed.rfind(_LAST_WORDS)
    if end < 0 or "\n" in printed[end + 1 :]:
        return None
    report = printed[max(0, end - _LONGEST) : end].rstrip("\n")
    places = list(_PLACE.finditer(report))
    if not places:
        return _without_place(report)
    place = places[-1]  # earlier text is the program's own output
    text = report[place.start() :]
    rest = report[place.end() :].lstrip("\n")
    error = _ERROR.match(rest)
    if error is None or not (error["message"] or "\n    at " in rest or error["name"].endswith("Error")):
        thrown = _THROWN.match(rest)
        return Failure("runtime", "Error", (thrown["message"] if thrown else rest).strip(), text)
    kind = "syntax" if error["name"] == "SyntaxError" and _never_began(rest) else "runtime"
    return Failure(kind, error["name"], (error["message"] or "").strip(), text)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Find where Node stopped parsing a source."""
    place = _PLACE.search(output)
    failure = explain(f"{output}\n\nNode.js v0")
    if place is None or failure is None or failure.kind != "syntax" or place["file"].startswith("node:"):
        return ()
    file = shown_name(place["file"], project)
    return (Diagnostic(file, number(place["line"]), len(place["mark"]) + 1, failure.message, code="SyntaxError"),)


def _without_place(report: str) -> Failure | None:
    """Find an error without a source line: the last line that can be the beginning of an error."""
    starts = list(_BEGINNING.finditer(report))
    if not starts:
        return None
    text = report[starts[-1].start() :]
    error = _ERROR.match(text)
    return Failure("runtime", error["name"], (error["message"] or "").strip(), text) if error else None


def _never_began(rest: str) -> bool:
    """Did Node itself fail to parse a file, rather than `JSON.parse` or `eval` in the program?"""
    first = _FRAME.search(rest)
    return first is None or first["place"].startswith("node:internal/")
