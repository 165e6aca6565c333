"""Writes large JSON texts piece by piece, so that sending one takes little memory however slowly its reader reads."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from cloche.json_text import to_json
from cloche.model.plain import Plain
from cloche.model.result import JSON_FIELDS, Display, Error, Result
from cloche.results.fields import in_words_of, plain
from cloche.service.event_log import PIECE, Encoded, EventLog, characters_in, shown_size

_REPLACEMENT = "\ufffd".encode()
FORM = "json"  # the name under which a log keeps our texts
_SLICE = 8 << 10  # characters of a text, which may become six times as many
_ENCODED = 3 * _SLICE  # bytes that are written as base64
_GROUP = 64  # items that are written at a time if they are small
_SHARED = 2 << 20  # characters of a display that is written once for all readers, which takes some milliseconds
_FRAGMENT = 1 << 10  # characters that a fragment counts for besides its own: a group of tiny items takes time as well


class ResultView:
    """A result with the names of its run and context, of which nothing is copied or encoded until it is written."""

    def __init__(self, result: Result, run_id: str = "", context: str = "") -> None:
        self._result, self._run_id, self._context = result, run_id, context

    def fields(self) -> dict[str, Any]:
        """The same fields as `result_fields` has."""
        result = self._result
        fields = {name: getattr(result, name) for name in JSON_FIELDS}
        fields.update(run_id=self._run_id, context=self._context, text=result.text)
        for name, text, data in (
            ("stdout_base64", result.stdout, result.stdout_bytes),
            ("stderr_base64", result.stderr, result.stderr_bytes),
        ):
            if data and not _is_text(text, data):
                fields[name] = _Base64(data)
        return fields


class _Base64:
    def __init__(self, data: bytes) -> None:
        self.data = data


def display_text(log: EventLog, display: Display) -> Encoded:
    """A display as JSON, encoded once for all who read the log of its run."""
    return log.encoded(display, FORM, lambda: to_json(plain(display)))


def json_pieces(value: Any, log: EventLog | None = None) -> Iterator[str]:
    """The JSON text of a value, in pieces of about PIECE characters; it may contain `ResultView` and plain objects.

    The texts of displays come from the log, if one is given.  Very large ones are written anew for each reader: to
    write one as a whole would make all others wait.
    """
    parts: list[str] = []
    size = 0
    for fragment in _Writer(log).fragments(value):
        parts.append(fragment)
        size += len(fragment) + _FRAGMENT
        if size >= PIECE - _SLICE:
            yield "".join(parts)
            parts, size = [], 0
    if parts:
        yield "".join(parts)


class _Writer:
    """Writes the fragments of one text."""

    def __init__(self, log: EventLog | None) -> None:
        self._log = log

    def fragments(self, value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield from _text(value)
        elif isinstance(value, ResultView):
            yield from self._object(value.fields())
        elif isinstance(value, Display) and self._log is not None and shown_size(value, _SHARED) <= _SHARED:
            shared = display_text(self._log, value)
            for start in range(0, len(shared.text), _ENCODED):
                yield shared.text[start : start + _ENCODED]
        elif isinstance(value, Plain):
            if isinstance(value, Error):
                value = in_words_of("http", value)
            yield from self._object({name: getattr(value, name) for name in value._fields})
        elif isinstance(value, dict):
            yield from self._object(value)
        elif isinstance(value, list | tuple):
            yield from self._array(value)
        elif isinstance(value, _Base64):
            yield '"'
            for start in range(0, len(value.data), _ENCODED):
                yield b64encode(value.data[start : start + _ENCODED]).decode()
            yield '"'
        else:
            yield to_json(value)

    def _object(self, fields: dict[str, Any]) -> Iterator[str]:
        begin = "{"
        items = iter(fields.items())
        while group := dict(islice(items, _GROUP)):
            if _is_small(group.values()):
                yield begin + to_json(group)[1:-1]
                begin = ","
                continue
            for name, value in group.items():
                yield begin
                yield from _text(str(name))
                yield ":"
                yield from self.fragments(value)
                begin = ","
        yield "{}" if begin == "{" else "}"

    def _array(self, items: Iterable[Any]) -> Iterator[str]:
        begin = "["
        rest = iter(items)
        while group := list(islice(rest, _GROUP)):
            if _is_small(group):
                yield begin + to_json(group)[1:-1]
                begin = ","
                continue
            for value in group:
                yield begin
                yield from self.fragments(value)
                begin = ","
        yield "[]" if begin == "[" else "]"


def _text(text: str) -> Iterator[str]:
    if len(text) <= _SLICE:
        yield to_json(text)
        return
    yield '"'
    for start in range(0, len(text), _SLICE):
        yield to_json(text[start : start + _SLICE])[1:-1]
    yield '"'


def _is_small(values: Iterable[Any]) -> bool:
    """Whether the encoder can write these values at once: they are small, and none is an object of ours."""
    left = _SLICE
    for value in values:
        if _holds_ours(value):
            return False
        if isinstance(value, str | dict | list | tuple):
            left -= characters_in(value, left)
            if left < 0:
                return False
    return True


def _holds_ours(value: Any, depth: int = 3) -> bool:
    """Whether a value is or has an object of ours, which are never deep inside, and of one kind in each list."""
    if isinstance(value, Plain | ResultView | _Base64):
        return True
    if not depth:
        return False
    if isinstance(value, dict):
        return any(_holds_ours(one, depth - 1) for one in islice(value.values(), _GROUP))
    return isinstance(value, list | tuple) and bool(value) and _holds_ours(value[0], depth - 1)


def _is_text(text: str, data: bytes) -> bool:
    """Whether these bytes, decoded to this text, are UTF-8: then each replacement character is in the bytes as well."""
    return text.count("\ufffd") == data.count(_REPLACEMENT)
