"""Removes the Markdown fence around code that was copied from a chat."""

from __future__ import annotations


def strip_fence(code: str) -> tuple[str, str]:
    """Return the code without its fence, and the fence's label; line numbers stay the same.

    Text that is not exactly one fenced block is returned as it is: of several blocks, or of prose with code in it,
    nobody has said what to run.
    """
    lines = code.rstrip().split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    opening = lines[first].strip() if first < len(lines) else ""
    mark = opening[: len(opening) - len(opening.lstrip(opening[:1]))]
    closes = [number for number, line in enumerate(lines) if number > first and line.strip() == mark]
    if mark[:3] not in ("```", "~~~") or closes != [len(lines) - 1]:
        return code, ""
    # In a Markdown list the whole block is indented as far as its fence.
    indent = len(lines[first]) - len(lines[first].lstrip())
    inside = [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines[first + 1 : -1]]
    return "\n".join(["" for _ in lines[: first + 1]] + inside) + "\n", opening[len(mark) :].strip()
