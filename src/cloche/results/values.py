"""Turns values of any shape into short texts."""

from __future__ import annotations

from cloche.results.cleaning import clean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def line(value: Any, most: int = 300) -> str:
    """Return a value as a short text on one line."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else as_json(value)
    text = " ".join(clean(text[: 4 * most]).split())
    return text if len(text) <= most else f"{text[:most]}…"


def short(value: Any) -> str:
    """Return a number with few digits, or a short text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return line(value.removesuffix("T00:00:00"), 80)
    return "–" if value is None else line(as_json(value, 2), 80)  # noqa: RUF001


def as_json(value: Any, depth: int = 5) -> str:
    """Return a value as JSON; deep and long values are cut."""
    if isinstance(value, dict):
        if depth <= 0:
            return f"{{… {len(value)} entries}}"
        parts = [f"{as_json(str(key), 1)}: {as_json(item, depth - 1)}" for key, item in list(value.items())[:30]]
        return f"{{{', '.join(parts)}{_more(value)}}}"
    if isinstance(value, (list, tuple)):
        if depth <= 0:
            return f"[… {len(value)} items]"
        return f"[{', '.join(as_json(item, depth - 1) for item in value[:30])}{_more(value)}]"
    if isinstance(value, str):
        part = value if len(value) <= 500 else f"{value[:500]}… {len(value) - 500} characters more"
        escaped = clean(part).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 200 else "a very large number"
    return f"{value!r}" if isinstance(value, float) else f"<{type(value).__name__}>"


def _more(items: Any) -> str:
    return f", … {len(items) - 30} more" if len(items) > 30 else ""


def as_list(value: Any) -> list[Any]:
    """Return the items of a list or tuple; [] for anything else."""
    return list(value) if isinstance(value, (list, tuple)) else []


def dicts(value: Any) -> list[dict[str, Any]]:
    """Return the items that are dicts."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def size(count: int) -> str:
    """Return a number of bytes for a person."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} bytes"


def seconds(duration: float) -> str:
    """Return a duration for a person."""
    return f"{duration:.3g} s"
