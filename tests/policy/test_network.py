"""The bounds on network policies: the operator's, and those of a key."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.configuration import Configuration, load
from cloche.errors import InvalidRun, Refused
from cloche.model.network import CONNECTIONS, MAX_CONNECTIONS, Network, network_of
from cloche.model.secret import Secret
from cloche.policy.caller import Caller
from cloche.policy.key_policy import checked_policy
from cloche.policy.network import bound_for, bounded, everything, narrowed, policy_for, with_kept_secrets


def configuration(**settings: str) -> Configuration:
    return load(settings, environ={"HOME": "/nowhere"}).value


def caller(network: Any = None) -> Caller:
    return Caller("key_1", "ada", frozenset({"run"}), checked_policy({} if network is None else {"network": network}))


@pytest.mark.parametrize(
    ("bound", "asked", "refused"),
    [
        ("public", "api.example.org:8443", None),
        ("public", "packages", None),
        ("public", "203.0.113.0/24:22", None),
        ("none", "api.example.org", "api.example.org"),
        ("packages", "packages", None),
        ("packages", "public", "public"),
        ("*.example.org", "api.example.org", None),
        ("*.example.org", "*.api.example.org", None),
        ("*.example.org", "example.org", "example.org"),
        ("*.example.org", "api.example.org:22", "api.example.org:22"),
        ("*.example.org", "*", "*"),
        ("*", "203.0.113.0/24", "203.0.113.0/24"),
        ("203.0.113.0/24", "203.0.113.128/25", None),
        ("203.0.113.0/24", "203.0.112.0/23", "203.0.112.0/23"),
        ("api.example.org:80,api.example.org:443", "api.example.org", None),
        ("api.example.org:443", "api.example.org", "api.example.org"),
    ],
)
def test_the_operator_bounds_what_anybody_may_ask_for(bound: str, asked: str, refused: str | None) -> None:
    operators = configuration(max_network=bound)
    if refused is None:
        assert policy_for(network_of([asked]), caller(), operators).effective.allow == (asked,)
        return
    with pytest.raises(Refused) as problem:
        policy_for(network_of([asked]), caller(), operators)
    assert f" {refused} " in problem.value.message
    assert "max_network" in problem.value.hint


def test_a_key_bounds_the_rest() -> None:
    narrow = caller({"allow": ["*.example.org"], "deny": ["secret.example.org"], "rate": "1M", "bytes": "5M"})
    got = policy_for(Network(allow=["api.example.org"], rate="2M", bytes="1M"), narrow, configuration()).effective
    assert (got.rate, got.bytes, got.deny) == (1 << 20, 1 << 20, ("secret.example.org",))
    for asked in ("api.example.net", "secret.example.org"):
        with pytest.raises(Refused, match=asked) as problem:
            policy_for(network_of([asked]), narrow, configuration())
        assert "key" in problem.value.message
    with pytest.raises(Refused):
        policy_for(network_of(["api.example.org"]), caller("none"), configuration())
    with pytest.raises(Refused):
        policy_for(network_of(["api.example.org"]), caller([]), configuration())  # an empty list allows nothing


def test_a_key_cannot_widen_the_operators_bound() -> None:
    bound = bound_for(caller(["public"]), configuration(max_network="packages", max_network_rate="1M"))
    assert (bound.allow, bound.rate) == (("packages",), 1 << 20)


def test_a_key_may_bound_amounts_alone() -> None:
    bound = bound_for(caller({"connections": 3}), configuration(max_network="*.example.org"))
    assert (bound.allow, bound.connections) == (("*.example.org",), 3)
    assert (
        policy_for(network_of(["a.example.org"]), caller({"connections": 3}), configuration()).effective.connections
        == 3
    )


def test_two_bounds_leave_what_both_cover() -> None:
    first = Network(allow=["*.example.org", "*:8443", "203.0.113.0/24", "packages"], connections=MAX_CONNECTIONS)
    second = Network(allow=["api.example.org", "*:443", "203.0.113.128/25:443", "db.example.org:8443"], rate="1M")
    both = narrowed(first, second)
    assert set(both.allow) == {"api.example.org", "*.example.org:443", "203.0.113.128/25:443", "db.example.org:8443"}
    assert (both.rate, both.connections) == (1 << 20, CONNECTIONS)


def test_all_that_a_bound_allows_includes_the_package_indexes() -> None:
    assert everything(bound_for(caller(), configuration())).allow == ("public", "packages")
    assert everything(bound_for(caller(), configuration(max_network="none"))).is_none
    assert everything(bound_for(caller(["a.example.org"]), configuration())).allow == ("a.example.org",)


def test_a_bound_does_not_change_what_was_asked_for() -> None:
    asked = Network(allow=["a.example.org"], secrets={"TOKEN": Secret("x", ["a.example.org"])}, dns="real")
    policy = policy_for(asked, caller({"rate": "1M"}), configuration())
    assert (policy.requested, policy.effective.secrets, policy.effective.dns) == (asked, asked.secrets, "real")
    assert bounded(asked, Network(allow=["public"])) == asked


def test_a_secret_without_a_value_keeps_the_one_it_has_for_its_own_hosts() -> None:
    before = Network(allow=["public"], secrets={"TOKEN": Secret("x", ["a.example.org", "b.example.org"])})

    def again(hosts: list[str], name: str = "TOKEN") -> Network:
        return with_kept_secrets(Network(allow=["public"], secrets={name: Secret.kept(hosts)}), before)

    assert again(["a.example.org"]).secrets["TOKEN"] == Secret("x", ["a.example.org"])
    with pytest.raises(InvalidRun, match="other hosts"):
        again(["evil.example.org"])
    with pytest.raises(InvalidRun, match="no secret OTHER"):
        again(["a.example.org"], "OTHER")
    with pytest.raises(InvalidRun, match="needs its value"):
        policy_for(
            Network(allow=["public"], secrets={"TOKEN": Secret.kept(["a.example.org"])}), caller(), configuration()
        )


@pytest.mark.parametrize("bound", ["not a rule", 7, ["none"], {"allowed": []}, {"rate": "slow"}])
def test_a_bound_that_makes_no_sense_is_refused(bound: Any) -> None:
    with pytest.raises(InvalidRun):
        checked_policy({"network": bound})


def test_secrets_are_bounded_together() -> None:
    """Each of them is looked for in dozens of forms, in all answers of its hosts."""
    secrets = {f"S{number}": Secret("x" * 16_384, ["a.example.org"]) for number in range(4)}
    assert Network(allow=["a.example.org"], secrets=secrets).secrets == secrets
    with pytest.raises(InvalidRun, match="together") as refused:
        Network(allow=["a.example.org"], secrets={**secrets, "MORE": Secret("y", ["a.example.org"])})
    assert "xxx" not in str(refused.value)
