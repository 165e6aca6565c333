"""Limits of a display: an object's forms are cut or dropped if they are too large, and made safe to send."""

from __future__ import annotations

from binascii import b2a_base64
from math import isfinite

from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLAIN_CHARACTERS = 1 << 20
TEXT_CHARACTERS = 5 << 20
JSON_CHARACTERS = 5 << 20
BINARY_BYTES = 20 << 20
METADATA_CHARACTERS = 64 << 10
DEPTH = 64
SMALL_VALUES = 10_000  # values of a list or dict that is also sent as JSON


def bounded(data: dict[str, Any], metadata: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the forms that can be sent, and the metadata with a note of those that cannot."""
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for mime, value in data.items():
        if value is None:
            continue
        try:
            kept[str(mime)] = _form(str(mime), value)
        except Exception:  # too large, too deep, not JSON: only this form is dropped
            dropped.append(str(mime))
    return kept, _with_note(metadata, dropped)


def cut(text: str, limit: int) -> str:
    """Cut out the middle of a text that is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def as_json(value: Any) -> Any:
    """Return a list or dict unchanged if it is small and JSON; otherwise None."""
    left = SMALL_VALUES
    level = [value]
    for _ in range(DEPTH):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                if not all(type(key) is str for key in item):
                    return None
                below += item.values()
            elif kind is list:
                below += item
            elif not _is_json_leaf(item):
                return None
            if len(below) > left:
                return None
        if not below:
            return value if len(dumps(value)) <= JSON_CHARACTERS else None
        left -= len(below)
        level = below
    return None


def _is_json_leaf(item: Any) -> bool:
    kind = type(item)
    if kind is float:
        return isfinite(item)
    if kind is int:
        return bool(item.bit_length() <= 1024)
    return kind in (str, bool, type(None))


def _form(mime: str, value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value)
        if mime.startswith("text/") or mime.endswith(("+xml", "javascript")):
            return _form(mime, value.decode("utf-8", "replace"))
        if len(value) > BINARY_BYTES:
            raise ValueError("too large")
        return b2a_base64(value, newline=False).decode()
    if isinstance(value, str):
        return _text(mime, str(value))
    if "json" not in mime:
        return _text(mime, str(value))
    return _json(value)


def _text(mime: str, text: str) -> str:
    if mime == "text/plain":
        return cut(text, PLAIN_CHARACTERS)
    is_text = mime.startswith("text/") or mime.endswith(("+xml", "javascript", "json"))
    if len(text) > (TEXT_CHARACTERS if is_text else BINARY_BYTES * 4 // 3 + 4):
        raise ValueError("too large")
    return text


def _json(value: Any, limit: int = JSON_CHARACTERS) -> Any:
    if isinstance(value, (dict, list, tuple)) and _is_too_deep(value):
        raise ValueError("too deep")
    try:
        text = dumps(value)
    except (TypeError, ValueError):
        value = _to_json(value)
        text = dumps(value)
    if "NaN" in text or "Infinity" in text:  # perhaps only within a string; then this changes nothing
        value = _to_json(value)
    if len(text) > limit:
        raise ValueError("too large")
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        below = {  # by identity: a container that holds itself twice does not grow
            id(item): item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, (dict, list, tuple))
        }
        level = list(below.values())
        if not level:
            return False
    return True


def _to_json(value: Any) -> Any:
    """Convert to the nearest JSON value: libraries put their own numbers and times into displays."""
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_to_json(item) for item in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    for name in ("tolist", "item"):  # NumPy's arrays and scalars
        method = getattr(value, name, None)
        if callable(method):
            return _to_json(method())
    return str(value)


def _with_note(metadata: dict[str, Any] | None, dropped: list[str]) -> dict[str, Any]:
    noted: dict[str, Any] = {}
    if metadata:
        try:
            noted = _json(_to_json(metadata), METADATA_CHARACTERS)
        except Exception:
            dropped = [*dropped, "metadata"]
    if dropped:
        noted["cloche"] = {"dropped": dropped}
    return noted
