"""Results as texts for people: output, and what went wrong."""

from __future__ import annotations

from cloche.model.kinds import kind_of
from cloche.model.result import Result
from cloche.model.wording import worded


def output_text(result: Result) -> str:
    """Return the output of a run for a person: its standard output, then its displays as texts."""
    text = result.stdout
    for shown in result.results:
        form = shown.text if isinstance(shown.text, str) else f"[{', '.join(shown.mime)}]"
        text += ("\n" if text and not text.endswith("\n") else "") + form
    return text


def errors_text(result: Result) -> str:
    """Return the errors of a run for a person: its standard error, then the problem and a hint."""
    text, error = result.stderr, result.error
    if error is None:
        return text
    reasons = []
    if error.traceback and error.traceback.strip() not in text:
        reasons.append(error.traceback.rstrip("\n"))
    elif kind_of(error.kind).is_silent or not text:
        reasons.append(error.message)
    if error.hint:
        reasons.append(f"Hint: {worded(error.hint, 'http')}")
    lead = "\n" if text and not text.endswith("\n") else ""
    return f"{text}{lead}{chr(10).join(reasons)}\n" if reasons else text
