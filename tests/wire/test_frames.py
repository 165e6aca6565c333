"""Frames survive being cut anywhere, and invalid frames are rejected."""

from __future__ import annotations

import os
import random

import pytest

from cloche.wire import frames
from cloche.wire.frames import Decoder, Garbled


def decoded(data: bytes, expected: frozenset[int] = frames.FROM_AGENT) -> list[tuple[int, int, bytes]]:
    return list(Decoder(expected).feed(data))


def test_a_frame_comes_out_as_it_went_in() -> None:
    assert decoded(frames.encode(7, frames.STDOUT, b"abc")) == [(7, frames.STDOUT, b"abc")]


def test_an_empty_payload_is_a_frame_too() -> None:
    assert decoded(frames.encode(0, frames.EXIT)) == [(0, frames.EXIT, b"")]


def test_the_largest_payload_passes_and_one_byte_more_is_refused_by_the_sender() -> None:
    assert decoded(frames.encode(1, frames.DATA, bytes(frames.MAX_PAYLOAD)))[0][2] == bytes(frames.MAX_PAYLOAD)
    with pytest.raises(ValueError, match="at most"):
        frames.encode(1, frames.DATA, bytes(frames.MAX_PAYLOAD + 1))


def test_the_largest_operation_number_passes() -> None:
    assert decoded(frames.encode(0xFFFFFFFF, frames.EXIT))[0][0] == 0xFFFFFFFF


def test_frames_may_be_cut_anywhere() -> None:
    sent = [(n, frames.STDOUT, bytes([n]) * n) for n in range(20)]
    data = b"".join(frames.encode(*frame) for frame in sent)
    for size in (1, 2, 3, 7, 8, 9, 10, 100, len(data)):
        decoder = Decoder(frames.FROM_AGENT)
        received = [f for start in range(0, len(data), size) for f in decoder.feed(data[start : start + size])]
        assert received == sent


def test_half_a_frame_is_nothing_yet() -> None:
    decoder = Decoder(frames.FROM_AGENT)
    frame = frames.encode(1, frames.STDOUT, b"abc")
    assert list(decoder.feed(frame[:-1])) == []
    assert list(decoder.feed(frame[-1:])) == [(1, frames.STDOUT, b"abc")]


@pytest.mark.parametrize("length", [frames.MAX_PAYLOAD + 1, 1 << 31, 0xFFFFFFFF])
def test_a_length_out_of_bounds_is_refused_before_its_payload_is_waited_for(length: int) -> None:
    with pytest.raises(Garbled):
        decoded(length.to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([frames.STDOUT]))


def test_the_engine_takes_no_frame_that_an_agent_never_sends() -> None:
    for kind in set(range(256)) - frames.FROM_AGENT:
        with pytest.raises(Garbled):
            decoded(frames.encode(1, kind), frames.FROM_AGENT)


def test_the_agent_takes_no_frame_that_an_engine_never_sends() -> None:
    for kind in set(range(256)) - frames.FROM_ENGINE:
        with pytest.raises(Garbled):
            decoded(frames.encode(1, kind), frames.FROM_ENGINE)


def test_good_frames_before_a_bad_one_are_still_told() -> None:
    frames_ = Decoder(frames.FROM_AGENT).feed(frames.encode(1, frames.EXIT) + b"\xff" * 9)
    assert next(frames_) == (1, frames.EXIT, b"")
    with pytest.raises(Garbled):
        next(frames_)


def test_random_bytes_are_refused_or_kept_within_bounds() -> None:
    chance = random.Random(1)
    for _ in range(300):
        decoder = Decoder(frames.FROM_AGENT)
        try:
            for _ in range(20):
                for _, kind, payload in decoder.feed(chance.randbytes(chance.randrange(64))):
                    assert kind in frames.FROM_AGENT
                    assert len(payload) <= frames.MAX_PAYLOAD
        except Garbled:
            continue


VALUES = [
    {},
    {"a": 1, "b": -2.5, "c": None, "d": True, "e": False},
    {"text": 'grüße 世界 🎉 \x00\x1f\x7f"\\/\u2028'},
    {"lone surrogates": os.fsdecode(b"\xff\xfe"), "\udc80": "\ud800"},
    {"nested": [{"a": [1, [2, [3]]]}, [], {}]},
    {"large": 1 << 200, "small": 1e-300, "whole": 1e22},
    {"": "empty name"},
]


@pytest.mark.parametrize("value", VALUES)
def test_json_comes_out_as_it_went_in(value: dict[str, object]) -> None:
    [(_, _, payload)] = decoded(frames.encode_json(1, frames.REPLY, value))
    assert frames.decode_json(payload) == value


HOSTILE = [
    b"",
    b"{",
    b"}",
    b"[]",
    b"null",
    b"1",
    b'"text"',
    b"{}{}",
    b"{} x",
    b'{"a":}',
    b'{"a"}',
    b"{a:1}",
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":"\x00"}',
    b'{"a":"\xff"}',
    b"\xff\xfe",
    b'{"a":01}',
    b'{"a":1e}',
    b'{"a":' + b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":' + b"9" * 100_000 + b"}",
    b'{"a":"\\u12"}',
    b'{"a":"\\x"}',
]


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_not_a_json_object_is_garbled_and_nothing_worse(payload: bytes) -> None:
    with pytest.raises(Garbled):
        frames.decode_json(payload)


def test_credit_says_how_much() -> None:
    [(operation, kind, payload)] = decoded(frames.credit(3, 1 << 20))
    assert (operation, kind, int.from_bytes(payload, "big")) == (3, frames.CREDIT, 1 << 20)


def test_small_frames_cost_enough_that_the_window_bounds_their_number() -> None:
    assert frames.cost(b"") == frames.cost(b"x") == frames.LEAST
    assert frames.cost(bytes(frames.CHUNK)) == frames.CHUNK
    assert frames.WINDOW // frames.LEAST <= 1 << 13


def test_no_kind_of_frame_has_two_meanings() -> None:
    names = [name for name in vars(frames) if name.isupper() and isinstance(getattr(frames, name), int)]
    sizes = {"MAX_PAYLOAD", "MAX_OPERATIONS", "CHUNK", "WINDOW", "READ_WINDOW", "LEAST", "REQUESTS", "TYPE_CHECKING"}
    kinds = [getattr(frames, name) for name in names if name not in sizes]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == frames.FROM_ENGINE | frames.FROM_AGENT | frames.TO_KERNEL
    assert frames.FROM_KERNEL - {frames.SYNC} < frames.FROM_AGENT
    assert {frames.CREDIT} == frames.FROM_ENGINE & frames.FROM_AGENT
