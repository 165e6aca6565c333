"""Describes an error: what happened, the user's line that caused it, the cause, what to do, and the last calls."""

from __future__ import annotations

import re

from cloche.results.cleaning import clean, harmless
from cloche.results.folding import KEPT, folded
from cloche.results.tokens import cut, estimate_tokens, fits
from cloche.results.values import line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloche.model.result import Error

# A frame in a traceback of IPython, which points at the line with an arrow, or of Python.
_FRAME = re.compile(
    r'^[ \t]*(?:Cell In ?\[(?P<cell>\d+)\]|File "?(?P<file>[^":\n]+)"?)(?:, line |:)(?P<line>\d+)'
    r"(?:, in (?P<where>[^\n]+))?",
    re.MULTILINE,
)
_ARROW = re.compile(r"^-+> ?\d+ (.*)$", re.MULTILINE)
_LIBRARY = re.compile(r"site-packages|^/opt/|^/usr/|^<frozen|^<__array_function__")
_CHAIN = re.compile(
    r"^(?:The above exception was the direct cause of|During handling of the above exception, another)[^\n]*$",
    re.MULTILINE,
)


def error_text(error: Error, limit: int) -> str:
    """Describe an error in at most `limit` tokens; the calls are left out first, then the middle of the message."""
    name = f"{line(error.name)}: " if error.name and not error.message.startswith(error.name) else ""
    head = f"[error] {line(error.kind)}: {name}"
    message = harmless(clean(error.message).strip())
    blocks = _CHAIN.split(clean((error.traceback or "")[-2 * KEPT :]))
    frames = list(_frames(blocks[-1]))
    own = [frame for frame in frames if not _LIBRARY.search(frame[1])]
    after = [f"at {call}" for call, _ in (own or frames)[-1:]]
    cause = _raised(blocks[0]) if len(blocks) > 1 else ""
    after += [f"cause: {cause}"] if cause else []
    after += [f"fix: {line(error.hint)}"] if error.hint else []
    for more in (after + _last_calls(frames, blocks[-1], limit), after):
        text = "\n".join((head + message, *more))
        if fits(text, limit):
            return text
    return _shortened(head, message, "\n".join(after), limit)


def _frames(traceback: str) -> Iterable[tuple[str, str]]:
    """Yield for each call its place with its line of code, and its file."""
    found = list(_FRAME.finditer(traceback))
    for n, match in enumerate(found):
        end = found[n + 1].start() if n + 1 < len(found) else len(traceback)
        body = traceback[match.end() : end]
        arrow = _ARROW.search(body)
        source = line(arrow.group(1) if arrow else "".join(body.split("\n")[1:2]))
        file = match["file"] or ""
        where = f"cell {match['cell']}" if match["cell"] else line(file)
        inside = f", in {line(match['where'])}" if match["where"] and match["where"] != "<module>" else ""
        yield f"{where} line {match['line']}{inside}{f': {source}' if source else ''}", file


def _raised(block: str) -> str:
    """The exception in the last line of a traceback."""
    lines = [each for each in block.strip().split("\n") if re.match(r"[A-Za-z_][\w.]*(: |$)", each)]
    return line(lines[-1]) if lines else ""


def _last_calls(frames: list[tuple[str, str]], traceback: str, limit: int) -> list[str]:
    if not frames and traceback.strip():  # of another language than Python
        return ["traceback:", folded(traceback, max(10, limit // 2))]
    if len(frames) < 2:
        return []
    left_out = [f"  … {len(frames) - 4} frames left out"] if len(frames) > 4 else []
    return ["last calls:", *left_out, *(f"  {call}" for call, _ in frames[-4:])]


def _shortened(head: str, message: str, after: str, limit: int) -> str:
    """Cut the message so that the lines after it have room; where these are long themselves, each gets half."""
    for room in (limit - estimate_tokens(after) - 1, limit // 2):
        start = cut(head + message, room) or cut(head, room)
        tail = cut(after, limit - room - 1)
        if start and tail:
            return f"{start}\n{tail}"
    return cut(head + message, limit)
