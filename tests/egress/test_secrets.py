"""Secrets in what passes: put into requests, and taken out of answers."""

from __future__ import annotations

import base64
import gzip
import html
import json
import random
import time
import zlib
from urllib.parse import quote, quote_plus

import pytest

from cloche.egress.http_heads import Refusal
from cloche.egress.secrets import Exchange, Held
from cloche.model.secret import new_placeholder

VALUE = "ca/na+ry&<\"k'e y\\%=_0123456789"
PLACEHOLDER = new_placeholder("TOKEN")


def exchange(value: str = VALUE) -> Exchange:
    return Exchange([Held("TOKEN", value, PLACEHOLDER), Held("OTHER", "0therValue!", new_placeholder("OTHER"))])


def answer(
    found: Exchange, data: bytes, size: int = 1 << 20, headers: list[tuple[bytes, bytes]] | None = None
) -> bytes:
    found.response_head(headers or [])
    parts = [data[place : place + size] for place in range(0, len(data), size)]
    return b"".join([piece for part in parts for piece in found.response_body(part)] + list(found.response_end()))


def test_placeholders_differ_and_name_their_secret() -> None:
    assert new_placeholder("TOKEN") != PLACEHOLDER
    assert PLACEHOLDER.startswith("cloche_secret_TOKEN_")
    assert len(PLACEHOLDER) == len("cloche_secret_TOKEN_") + 32


def test_the_headers_of_a_policy_take_the_place_of_a_programs_own() -> None:
    held = Held("TOKEN", VALUE, PLACEHOLDER, is_in_programs=False)
    sent = Exchange([held], [(b"X-Key", VALUE.encode()), (b"X-Plain", b"yes")]).request(
        [(b"x-key", b"mine"), (b"X-Kept", PLACEHOLDER.encode()), (b"Accept", b"*/*")]
    )
    assert sent == [
        (b"X-Kept", PLACEHOLDER.encode()),  # programs have no use for this placeholder
        (b"Accept", b"*/*"),
        (b"X-Key", VALUE.encode()),
        (b"X-Plain", b"yes"),
        (b"Accept-Encoding", b"identity"),
    ]


def test_headers_without_a_secret_leave_the_answer_as_it_is() -> None:
    plain = Exchange([], [(b"X-Plain", b"yes")])
    assert plain.request([(b"Accept-Encoding", b"br")]) == [(b"Accept-Encoding", b"br"), (b"X-Plain", b"yes")]
    packed = gzip.compress(b"yes")
    headers = [(b"Content-Encoding", b"gzip"), (b"X-Echo", b"yes")]
    assert plain.response_head(headers) == headers
    assert answer(plain, packed, headers=headers) == packed


def test_values_are_put_into_headers_and_basic_authentication() -> None:
    basic = b"Basic " + base64.b64encode(b"user:" + PLACEHOLDER.encode())
    sent = exchange().request(
        [
            (b"Authorization", b"Bearer " + PLACEHOLDER.encode()),
            (b"authorization", basic),
            (b"X-Key", b"a" + 2 * PLACEHOLDER.encode()),
            (b"X-Other", new_placeholder("TOKEN").encode()),
            (b"Accept-Encoding", b"br"),
            (b"Range", b"bytes=0-5"),
        ]
    )
    assert sent[:3] == [
        (b"Authorization", b"Bearer " + VALUE.encode()),
        (b"authorization", b"Basic " + base64.b64encode(b"user:" + VALUE.encode())),
        (b"X-Key", b"a" + 2 * VALUE.encode()),
    ]
    assert VALUE.encode() not in sent[3][1]
    assert sent[4:] == [(b"Accept-Encoding", b"identity")]


PACKED = gzip.compress(b"a")


@pytest.mark.parametrize(
    "text", [b"Basic !!!", b"Basic", b"Basic " + base64.b64encode(b"user:pass"), b"Basic YQ==YQ=="]
)
def test_other_basic_authentication_passes_as_it_is(text: bytes) -> None:
    assert exchange().request([(b"Authorization", text)])[0] == (b"Authorization", text)


def test_a_head_does_not_grow_without_bound() -> None:
    with pytest.raises(Refusal) as refused:
        exchange("v" * 16000).request([(b"X", PLACEHOLDER.encode() * 100)])
    assert "vvv" not in str(refused.value)


FORMS = {
    "plain": VALUE,
    "percent": quote(VALUE, safe=""),
    "small percent": quote(VALUE, safe="")
    .replace("%2F", "%2f")
    .replace("%2B", "%2b")
    .replace("%3C", "%3c")
    .replace("%5C", "%5c")
    .replace("%3D", "%3d"),
    "path": quote(VALUE),
    "form": quote_plus(VALUE),
    "JavaScript": quote(VALUE, safe="!'()*"),
    "every character": "".join(f"%{ord(char):02x}" for char in VALUE),
    "JSON": json.dumps({"a": VALUE}),
    "JSON with slashes": json.dumps(VALUE).replace("/", "\\/"),
    "JSON for pages": json.dumps(VALUE).replace("<", "\\u003c").replace("&", "\\u0026"),
    "HTML": html.escape(VALUE),
    "hexadecimal": VALUE.encode().hex(),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_a_value_is_taken_out_of_bodies_however_they_are_split(form: str, size: int) -> None:
    text = f"before {form} {form}after".encode()
    shown = form[1:-1] if form.startswith('"') else form
    if form.startswith("{"):
        shown = json.dumps(VALUE)[1:-1]
    assert shown.encode() in text
    assert answer(exchange(), text, size) == text.replace(shown.encode(), PLACEHOLDER.encode())


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_is_taken_out_of_base64_wherever_it_begins(before: int, encode) -> None:
    text = encode(b"x" * before + VALUE.encode() + b"after")
    for size in (1, 1 << 20):
        found = answer(exchange(), b"[" + text + b"]", size)
        assert PLACEHOLDER.encode() in found
        left = found.replace(PLACEHOLDER.encode(), b"")
        assert len(left) <= len(text) + 2 - len(VALUE) * 4 // 3 + 2


def test_headers_of_answers_are_cleaned() -> None:
    found = exchange().response_head([(b"Location", b"/?k=" + quote(VALUE, safe="").encode()), (b"X", b"y")])
    assert found == [(b"Location", b"/?k=" + PLACEHOLDER.encode()), (b"X", b"y")]


def test_not_even_the_name_of_a_header_shows_a_value() -> None:
    found = exchange("canary-0123").response_headers([(b"X-canary-0123", b"y")])
    assert found == [(b"X-" + PLACEHOLDER.encode(), b"y")]


def test_long_placeholders_of_short_values_do_not_make_answers_grow_without_bound() -> None:
    found = exchange("v")
    assert answer(found, b"v" * 100) == 100 * PLACEHOLDER.encode()
    assert max(map(len, found.response_body(b"v" * 65536))) <= 65536
    with pytest.raises(Refusal) as refused:
        found.response_headers([(b"X", b"v" * 60000)])
    assert PLACEHOLDER not in str(refused.value)


def test_many_beginnings_of_a_value_do_not_take_long() -> None:
    value = "a" * 16000
    found, body = exchange(value), (b"a" * 15 + b"b") * 4096
    begin = time.process_time()
    assert answer(found, body + value.encode() + body, 1000) == body + PLACEHOLDER.encode() + body
    assert time.process_time() - begin < 1


def test_only_the_possible_beginning_of_a_value_is_kept_back() -> None:
    found = exchange()
    found.response_head([])
    assert list(found.response_body(b"data: 1\n\n")) == [b"data: 1\n\n"]
    assert list(found.response_body(b"data: " + VALUE[:5].encode())) == [b"data: "]
    assert list(found.response_body(b" no\n\n")) == [VALUE[:5].encode() + b" no\n\n"]
    assert list(found.response_body(VALUE[:5].encode())) == []
    assert list(found.response_end()) == [VALUE[:5].encode()]


def test_random_pieces_of_values_give_what_a_whole_body_gives() -> None:
    chance = random.Random(5)
    values = ["abcabcabd", "abcabd", "cab", "zzzzzzzzzz"]
    secrets = [Held(f"S{number}", value, f"<{number}>") for number, value in enumerate(values)]
    for _ in range(100):
        body = "".join(chance.choice([*values, "ab", "c", "zzz", "-"]) for _ in range(30)).encode()
        whole = answer(Exchange(secrets), body)
        assert answer(Exchange(secrets), body, chance.randint(1, 9)) == whole
        assert not any(value.encode() in whole for value in values)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        (b"gzip", gzip.compress),
        (b"gzip", lambda data: gzip.compress(data[:20]) + gzip.compress(data[20:])),
        (b"Deflate", zlib.compress),
        (b"deflate", lambda data: zlib.compress(data)[2:-4]),
        (b"identity", bytes),
    ],
)
def test_compressed_answers_are_unpacked(name: bytes, pack) -> None:
    data = b"x" * 1_000_000 + VALUE.encode() + b"x"
    found = exchange()
    assert found.response_head([(b"Content-Encoding", name)]) == []
    packed = pack(data)
    pieces = [
        piece for place in range(0, len(packed), 100) for piece in found.response_body(packed[place : place + 100])
    ]
    pieces += found.response_end()
    assert b"".join(pieces) == data.replace(VALUE.encode(), PLACEHOLDER.encode())
    assert max(map(len, pieces)) <= 65536 + 1000


@pytest.mark.parametrize("name", [b"br", b"gzip, gzip", b"zstd", b"identity, br"])
def test_other_encodings_are_refused(name: bytes) -> None:
    with pytest.raises(Refusal):
        exchange().response_head([(b"Content-Encoding", name)])


def test_an_answer_without_a_body_may_name_an_encoding() -> None:
    assert answer(exchange(), b"", headers=[(b"content-encoding", b"gzip")]) == b""


@pytest.mark.parametrize("body", [b"no gzip", PACKED[:-3], PACKED + b"rest"], ids=["none", "cut", "longer"])
def test_a_body_that_cannot_be_unpacked_is_no_whole_answer(body: bytes) -> None:
    with pytest.raises(Refusal):
        answer(exchange(), body, headers=[(b"content-encoding", b"gzip")])


def test_the_bytes_of_a_websocket_keep_their_number() -> None:
    found = exchange()
    data = b"\x81\x7e" + VALUE.encode() + b"tail" + VALUE[:3].encode()
    cleaned = b"".join([*(found.raw(data[place : place + 1]) for place in range(len(data))), found.raw(b"")])
    assert cleaned == data.replace(VALUE.encode(), b"*" * len(VALUE))


def test_nothing_shows_a_value() -> None:
    assert "canary" not in repr([exchange("canary-0123"), Held("TOKEN", "canary-0123", PLACEHOLDER)])
