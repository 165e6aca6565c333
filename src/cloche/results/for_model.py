"""Turns a result into the text that a language model reads, within a budget of tokens.

The error comes first, with the line that caused it and a hint; then the main result, the displays, standard output and
standard error, new files, tool calls, and notes.  Error and main result get their share first; the other sections
divide the rest: small ones stay whole, large ones get equal parts.  Wherever something is left out, a line that begins
with "…" says how much.  The same result and budget always give the same text.

Untrusted code wrote everything in a result.  Therefore its text is cleaned (no escape sequences, no control characters,
nothing invisible), its data are not assumed to have the right shape, and none of its lines can look like one of our
headings.
"""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.results.displays import display_text
from cloche.results.errors import error_text
from cloche.results.folding import FoldedLines, listed
from cloche.results.tokens import cut, estimate_tokens, fits
from cloche.results.values import as_json, as_list, line, seconds, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.model.result import Artifact, Display, Result, ToolCall

    Render = Callable[[int], str]  # makes a section of at most so many tokens

__all__ = ["estimate_tokens", "for_model"]

LEAST = 50
_REFUSED = 5  # hosts that a note names


def for_model(result: Result, budget: int = 2000) -> str:
    """Return the text for a model; `estimate_tokens` of it never exceeds the budget."""
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < LEAST:
        raise InvalidRun(
            f"A budget of {budget!r} tokens is not possible.", f"Give a whole number of tokens, {LEAST} or more."
        )
    sections = _sections(result)
    if not sections:
        sections["nothing"] = lambda limit: cut(
            f"The code ran and printed nothing. ({seconds(result.duration)})", limit
        )
    notes = "\n".join(f"[note] {note}" for note in _notes(result))
    if notes:
        sections["notes"] = lambda limit: cut(notes, limit)
    return _shared_out(sections, budget)


def _sections(result: Result) -> dict[str, Render]:
    """The sections that this result has, in order."""
    sections: dict[str, Render] = {}
    error, stderr = result.error, result.stderr
    if error is not None:
        sections["error"] = lambda limit: error_text(error, limit)
        if error.traceback:  # the section "error" has it already
            stderr = stderr.rstrip().removesuffix(error.traceback.strip())
    main = [shown for shown in result.results if shown.is_main]
    if main:
        sections["result"] = _under("result", lambda limit: display_text(main[-1], limit))
    others = [shown for shown in result.results if not shown.is_main]
    if others:
        sections["displays"] = lambda limit: listed(_display_texts(others, limit), limit, "displays")
    for name, output in (("stdout", result.stdout), ("stderr", stderr)):
        if output.strip():
            sections[name] = _under(name, FoldedLines(output).within)
    if result.artifacts:
        files = [_file(artifact) for artifact in result.artifacts]
        sections["files"] = _under("files", lambda limit: listed(files, limit, "files"))
    if result.tool_calls:
        calls = [_tool_call(call) for call in result.tool_calls]
        sections["tools"] = _under("tools", lambda limit: listed(calls, limit, "calls"))
    return sections


def _under(name: str, render: Render) -> Render:
    """Put the heading before a single line, or above several lines."""
    heading = f"[{name}]"

    def with_heading(limit: int) -> str:
        body = render(limit - estimate_tokens(heading) - 1)
        if not body:
            return ""
        return f"{heading} {body}" if "\n" not in body else f"{heading}\n{body}"

    return with_heading


def _display_texts(displays: list[Display], limit: int) -> list[str]:
    """Describe the displays for which there is room; the others, which may be large and many, are not looked at."""
    texts: list[str] = []
    used = 0
    for shown in displays:
        if used > limit:
            break
        texts.append(display_text(shown, limit // 2))
        used += estimate_tokens(texts[-1])
    return texts + [""] * (len(displays) - len(texts))


def _file(artifact: Artifact) -> str:
    return f"{line(artifact.path, 200)} ({size(artifact.size)})"


def _tool_call(call: ToolCall) -> str:
    args = [as_json(value, 2) for value in as_list(call.args)[:10]]
    named = list(call.kwargs.items())[:10] if isinstance(call.kwargs, dict) else []
    args += [f"{line(name, 40)}={as_json(value, 2)}" for name, value in named]
    outcome = f"failed: {line(call.error)}" if call.error is not None else line(as_json(call.value, 3))
    return f"{line(call.name, 80)}({line(', '.join(args))}) → {outcome} ({seconds(call.duration)})"


def _notes(result: Result) -> list[str]:
    notes = []
    if result.restarted:
        notes.append("The kernel was restarted: variables are lost, files are not.")
    elif result.error is not None and result.error.kind == "timeout" and result.execution_count is not None:
        notes.append("The code was interrupted: variables are kept.")
    refused = dict.fromkeys(f"{one.host}:{one.port}" for one in result.network if one.verdict == "refused")
    if refused:
        named = ", ".join(line(each, 120) for each in list(refused)[:_REFUSED])
        more = f" and {len(refused) - _REFUSED} more" if len(refused) > _REFUSED else ""
        notes.append(f"The network policy refused {named}{more}.")
    if result.truncated:
        notes.append("Output was cut at its limit.")
    return notes


def _shared_out(sections: dict[str, Render], budget: int) -> str:
    """Fit every section into its share of the budget."""
    room = budget - len(sections)  # for the line breaks between them
    whole = {name: render(room) for name, render in sections.items()}
    needs = {name: estimate_tokens(text) for name, text in whole.items()}
    if sum(needs.values()) > room:
        room -= 8  # for the line that names the sections without room
    first = {name: need for name, need in needs.items() if name in ("error", "result")}
    rest = {name: need for name, need in needs.items() if name not in first}
    limits = _levelled(first, room - min(sum(rest.values()), room // 4))
    limits |= _levelled(rest, room - sum(limits.values()))
    texts = {
        name: text if limits[name] >= needs[name] else sections[name](limits[name]) for name, text in whole.items()
    }
    spare = room - sum(map(estimate_tokens, texts.values()))
    for name, text in texts.items():  # tokens that some sections did not use go to others
        if text != whole[name]:
            used = estimate_tokens(text)
            texts[name] = sections[name](used + spare) or text
            spare -= estimate_tokens(texts[name]) - used
    parts = [text for text in texts.values() if text]
    missing = [name for name, text in texts.items() if not text]
    if missing:
        named = "\n".join((*parts, f"[left out] {', '.join(missing)}"))
        parts = [named if fits(named, budget) else "\n".join((*parts, f"[left out] {len(missing)} more"))]
    return cut("\n".join(parts), budget)


def _levelled(needs: dict[str, int], room: int) -> dict[str, int]:
    """Give each section what it needs; where the room is too small for that, the largest get equal shares."""
    limits: dict[str, int] = {}
    for name in sorted(needs, key=lambda name: needs[name]):
        limits[name] = max(0, min(needs[name], room // (len(needs) - len(limits))))
        room -= limits[name]
    return limits
