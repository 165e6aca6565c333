"""The headers of a policy: what can be set, and how they name secrets."""

from __future__ import annotations

from typing import Any

import pytest

import cloche
from cloche.errors import InvalidRun
from cloche.model.network import Network
from cloche.model.network_headers import filled, literal, named_secrets
from cloche.model.secret import Secret

HOST = "api.example.org"


def policy(headers: Any, hosts: list[str] | None = None) -> Network:
    return Network(allow=[HOST], headers=headers, secrets={"KEY": Secret("value", hosts or [HOST])})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bearer ${KEY}", "Bearer <KEY>"),
        ("${KEY}${OTHER}", "<KEY><OTHER>"),
        ("$${KEY}", "${KEY}"),
        ("$$${KEY}", "$${KEY}"),
        ("costs $5, ${}, ${1}, $KEY", "costs $5, ${}, ${1}, $KEY"),
    ],
)
def test_a_text_names_secrets(text: str, expected: str) -> None:
    assert filled(text, lambda name: f"<{name}>") == expected
    assert named_secrets([text]) == {name for name in ("KEY", "OTHER") if f"<{name}>" in expected}


@pytest.mark.parametrize("text", ["${KEY}", "$${KEY}", "$", "a ${ b", "plain"])
def test_a_literal_text_stays_as_it_is(text: str) -> None:
    assert named_secrets([literal(text)]) == set()
    assert filled(literal(text), lambda _: "") == text


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({HOST: {"X-A": "${MISSING}"}}, "MISSING"),
        ({"other.example.org": {"X-A": "${KEY}"}}, "not for that host"),
        ({"*.example.org": {"X-A": "${KEY}"}}, "not for that host"),
        ({HOST: {"Host": "x"}}, "Host"),
        ({HOST: {"content-length": "1"}}, "content-length"),
        ({HOST: {"Sec-WebSocket-Key": "1"}}, "Sec-WebSocket-Key"),
        ({HOST: {"X-A": "a\r\nX-B: b"}}, "X-A"),
        ({HOST: {"X-A": 1}}, "X-A"),
        ({HOST: {"X:A": "a"}}, "X:A"),
        ({HOST: ["X-A"]}, HOST),
        ({"10.0.0.0/8": {"X-A": "a"}}, "10.0.0.0/8"),
        ({"public": {"X-A": "a"}}, "public"),
        ([HOST], "mapping"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(headers: Any, says: str) -> None:
    with pytest.raises(InvalidRun, match=says):
        policy(headers)


def test_a_secret_for_all_names_below_is_one_for_each() -> None:
    assert policy({"api.example.org": {"X-A": "${KEY}"}}, ["*.example.org"]).headers[HOST] == {"X-A": "${KEY}"}
    assert Network(**policy({HOST: {"X-A": "$${KEY}"}}).with_values()) == policy({HOST: {"X-A": "$${KEY}"}})


def test_a_sandbox_on_this_host_has_no_stored_secrets(jail: None) -> None:
    network = Network(allow=[HOST], secrets={"KEY": Secret("", [HOST], stored="api-key")})
    with pytest.raises(InvalidRun, match="no value here"):
        cloche.Sandbox(network=network)
    with cloche.Sandbox(network=[HOST]) as box:
        with pytest.raises(InvalidRun, match="no value here"):
            box.network.replace(network)
        assert box.network.policy().effective.allow == (HOST,)
