"""Reads a `requirements.txt`: a requirement a line, with comments, continued lines and hashes."""

from __future__ import annotations

import re

from cloche.errors import InvalidRun
from cloche.model.packages import Requirement
from cloche.model.python_requirements import python_requirement, refused_option

# More than in a request, since tools write files that list every dependency.
MAX_LINES, MAX_FILE = 500, 4 << 20
_COMMENT = re.compile(r"(^|\s)#.*$")


def requirements(text: str) -> tuple[Requirement, ...]:
    """The requirements of a file; InvalidRun names the line that cannot be used."""
    if len(text) > MAX_FILE:
        raise InvalidRun(f"A requirements file can have at most {MAX_FILE >> 20} MB.")
    found: dict[Requirement, None] = {}
    needs_hashes = False
    for number, line in _lines(text):
        try:
            if line == "--require-hashes":
                needs_hashes = True
            elif line.startswith("-"):
                raise refused_option(line)
            else:
                found[python_requirement(line)] = None
        except InvalidRun as problem:
            raise InvalidRun(f"Line {number} of the requirements: {problem.message}", problem.hint) from problem
        if len(found) > MAX_LINES:
            raise InvalidRun(f"A requirements file can name at most {MAX_LINES} packages.")
    for each in found:
        if needs_hashes and not each.hashes:
            raise InvalidRun(
                f"The requirements demand hashes, and {each.text} has none.",
                hint="Write NAME==VERSION --hash=sha256:…; pip-compile --generate-hashes writes such lines.",
            )
    return tuple(found)


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines that say something, with the number of the line where each begins."""
    found, kept, first = [], "", 0
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        first = first or number
        # As pip reads it: a line of comment alone does not continue the one before it.
        is_comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not is_comment:
            kept += line[:-1] + " "
            continue
        whole = _COMMENT.sub("", kept + ("" if is_comment else line)).strip()
        if whole:
            found.append((first, whole))
        kept, first = "", 0
    if kept.strip():
        found.append((first, _COMMENT.sub("", kept).strip()))
    return found
