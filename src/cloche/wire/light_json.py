"""JSON with only the C functions that `json` itself is made of.

`json` imports `re` and `enum`, six milliseconds that a cold `cloche run` would pay twice: here and in the nursery.
These functions have everything that frames need.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} cannot be sent")


# No check for cycles; `_refuse` for values that are not JSON; ASCII; no indentation; these separators; no sorting.
_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)


def dumps(value: Any) -> str:
    """Encode dicts with string keys, lists, strings, numbers, booleans and None as ASCII JSON."""
    return "".join(_encode(value, 0))


class _Rules:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012  (the scanner wants it, and empties it)


_scan = make_scanner(_Rules())  # type: ignore[arg-type]


def loads(text: str) -> Any:
    """Decode JSON; ValueError if the text is anything else."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("something follows the JSON")
    return value
