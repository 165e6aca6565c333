"""JSON by the C functions alone that `json` itself is made of.

`json` brings `re` and `enum` along, six milliseconds that a cold `cloche run` would wait for twice: in the nursery and
here.  What these functions do not have is what frames do not need.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} cannot be sent")


# No check for circles, this for what is not JSON, ASCII, no indentation, these separators, keys as they are.
_encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)


def dumps(value: Any) -> str:
    """A value made of dicts with text keys, lists, texts, numbers, booleans and None, as ASCII."""
    return "".join(_encode(value, 0))


class _Rules:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012  (the scanner wants it, and empties it)


_scan = make_scanner(_Rules())  # type: ignore[arg-type]


def loads(text: str) -> Any:
    """The value; ValueError when it is not JSON, and nothing but JSON."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        raise ValueError("not JSON") from None
    if end != len(text):
        raise ValueError("something follows the JSON")
    return value
