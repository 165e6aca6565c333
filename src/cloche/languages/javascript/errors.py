"""What Node prints when a program fails: which error, where, and whether the program ever began."""

from __future__ import annotations

import re

from cloche.languages.diagnostics import number, shown_name
from cloche.languages.language import Failure, Project
from cloche.model.result import Diagnostic

_LAST_WORDS = "\nNode.js v"  # the last line of what Node says of an error that nobody caught
# The place, the line of code, and the mark below it; all at the beginning of what Node prints.
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
_LONGEST = 64 << 10  # of what is looked at, from the end


def explain(stderr: str) -> Failure | None:
    """What went wrong, if Node says so at the end."""
    if _HEAP.search(stderr):
        return Failure("runtime", "OutOfMemoryError", "JavaScript heap out of memory", stderr[-_LONGEST:])
    printed = stderr.rstrip()
    end = printed.rfind(_LAST_WORDS)
    if end < 0 or "\n" in printed[end + 1 :]:
        return None
    said = printed[max(0, end - _LONGEST) : end].rstrip("\n")
    places = list(_PLACE.finditer(said))
    if not places:
        return _without_place(said)
    place = places[-1]  # what comes before is the program's own
    text = said[place.start() :]
    told = said[place.end() :].lstrip("\n")
    error = _ERROR.match(told)
    if error is None or not (error["message"] or "\n    at " in told or error["name"].endswith("Error")):
        thrown = _THROWN.match(told)
        return Failure("runtime", "Error", (thrown["message"] if thrown else told).strip(), text)
    kind = "syntax" if error["name"] == "SyntaxError" and _never_began(told) else "runtime"
    return Failure(kind, error["name"], (error["message"] or "").strip(), text)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Where Node stopped reading a source."""
    place = _PLACE.search(output)
    failure = explain(f"{output}\n\nNode.js v0")
    if place is None or failure is None or failure.kind != "syntax" or place["file"].startswith("node:"):
        return ()
    file = shown_name(place["file"], project)
    return (Diagnostic(file, number(place["line"]), len(place["mark"]) + 1, failure.message, code="SyntaxError"),)


def _without_place(said: str) -> Failure | None:
    """An error whose place Node does not show: the last line that can be the beginning of one."""
    starts = list(_BEGINNING.finditer(said))
    if not starts:
        return None
    text = said[starts[-1].start() :]
    error = _ERROR.match(text)
    return Failure("runtime", error["name"], (error["message"] or "").strip(), text) if error else None


def _never_began(told: str) -> bool:
    """Was it Node's own reading of a file that failed, not something like `JSON.parse` or `eval`?"""
    first = _FRAME.search(told)
    return first is None or first["place"].startswith("node:internal/")
