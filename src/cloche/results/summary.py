"""Sums up a result in one short line."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.result import Result

MAX_VALUE = 60  # characters of a value, an output or a message


def summary(result: Result, values: bool = True) -> str:
    """Return how the run ended, how long it took and, with `values`, the beginning of its value or its output."""
    error = result.error
    parts = ["ok"] if error is None else [error.kind]
    if error is not None and result.exit_code:
        parts.append(f"exit code {result.exit_code}")
    parts.append(f"{result.duration:.3g} s")
    if values:
        parts += _values(result)
    count = len(result.results)
    if count > (result.text is not None):
        parts.append(f"{count} display{'s' if count != 1 else ''}")
    return f"<Result: {', '.join(parts)}>"


def _values(result: Result) -> list[str]:
    if result.error is not None:
        name = f"{result.error.name}: " if result.error.name else ""
        return [_begun(name + result.error.message)]
    if result.text is not None:
        return [f"value {_begun(result.text)}"]
    text = result.stdout.strip() or result.stderr.strip()
    return [f"output {_begun(text)}"] if text else []


def _begun(text: str) -> str:
    """Return the beginning of the first line in quotes, with escapes for characters that are not printed."""
    first = text.strip()[: MAX_VALUE + 1].partition("\n")[0]
    is_whole = len(first) <= MAX_VALUE and len(first) == len(text.strip())
    return repr(first[:MAX_VALUE] + ("" if is_whole else "…"))
