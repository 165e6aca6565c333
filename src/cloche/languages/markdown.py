"""Code that comes with its Markdown fence around it, as copied from a chat."""

from __future__ import annotations


def unfenced(code: str) -> tuple[str, str]:
    """The code without its fence, its lines where they were, and the fence's label; as it is where it has none."""
    lines = code.rstrip().split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    opening = lines[first].strip() if first < len(lines) else ""
    mark = opening[: len(opening) - len(opening.lstrip(opening[:1]))]
    closes = [number for number, line in enumerate(lines) if number > first and line.strip() == mark]
    # One block and nothing beside it: of several, or of text with code in it, nobody has said what to run.
    if mark[:3] not in ("```", "~~~") or closes != [len(lines) - 1]:
        return code, ""
    # In a list the whole block is indented: its lines begin where the fence does.
    indent = len(lines[first]) - len(lines[first].lstrip())
    inside = [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines[first + 1 : -1]]
    return "\n".join(["" for _ in lines[: first + 1]] + inside) + "\n", opening[len(mark) :].strip()
