"""The fast encoder writes the same JSON as the standard library."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cloche.json_text import json_to_keep, quick_json, to_json

VALUES: list[Any] = [
    {"a": [1, -1, 0, True, False, None], "b": {"": {}}, "c": ()},
    [0.1 + 0.2, 1e-7, 1e22, -0.0, 5e-324, 1.7976931348623157e308, 1.0],
    [2**53 + 1, 2**63, -(2**200)],
    'quotes " \\ / \b\f\n\r\t \x00\x1f\x7f',
    "é \u2028 \U0001f600",
    "\ud800 alone",
    {"\udcff": 1},
    json.loads("[" * 400 + "]" * 400),
    type("Text", (str,), {})("a text of another class"),
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_it_is_the_same(value: Any) -> None:
    for encoded in (to_json(value), json_to_keep(value)):
        assert encoded.isascii()
        assert json.loads(encoded) == json.loads(json.dumps(value))


def test_plain_data_is_written_quickly() -> None:
    assert quick_json({"a": [1, "b", None]}) == '{"a":[1,"b",null]}'


def test_what_is_no_number_is_null_for_others_and_stays_for_us() -> None:
    values = [float("inf"), float("-inf"), float("nan"), "é"]
    for more in ([], ["é"]):
        assert json.loads(to_json([*values[:3], *more])) == [None, None, None, *more]
        assert json.loads(json_to_keep([*values[:2], *more])) == [*values[:2], *more]
        assert json.loads(json_to_keep(values[2:3])) != values[2:3]


def test_what_is_not_data_is_refused() -> None:
    with pytest.raises(TypeError):
        json_to_keep({"a": object()})
