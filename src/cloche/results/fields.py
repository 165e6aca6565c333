"""Results and other plain data as dictionaries and lists, ready for any encoder.

The server's JSON answers and the store's record of a run have the same fields.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from cloche.model.plain import Plain
from cloche.model.result import JSON_FIELDS, Error, Result
from cloche.model.wording import worded

_ATOMS = frozenset((str, int, float, bool, type(None)))


def plain(value: Any) -> Any:
    """Plain data, with everything nested in it, as dictionaries and lists."""
    if isinstance(value, Error):
        value = in_words_of("http", value)
    if isinstance(value, Plain):
        return _by_name(value, value._fields)
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def result_fields(result: Result, run_id: str = "", context: str = "") -> dict[str, Any]:
    """A result; output that is not UTF-8 text is also there in base64."""
    fields = _by_name(result, JSON_FIELDS)
    fields.update(run_id=run_id, context=context, text=result.text)
    for stream, data in (("stdout", result.stdout_bytes), ("stderr", result.stderr_bytes)):
        if data and not _is_text(data):
            fields[f"{stream}_base64"] = b64encode(data).decode()
    return fields


def in_words_of(place: str, error: Error) -> Error:
    """An error whose hint has the words of a door."""
    hint = worded(error.hint, place)
    return error if hint == error.hint else error.replace(hint=hint)


def result_in_words_of(place: str, result: Result) -> Result:
    """A result whose error has the words of a door."""
    if result.error is None:
        return result
    error = in_words_of(place, result.error)
    return result if error is result.error else result.replace(error=error)


def _by_name(value: Plain, names: tuple[str, ...]) -> dict[str, Any]:
    fields = {}
    for name in names:
        field = getattr(value, name)
        fields[name] = field if type(field) in _ATOMS else plain(field)
    return fields


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
