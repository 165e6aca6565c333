"""E2B's network settings as a policy: unset is all that the bound allows; an allowed address beats a denied one."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.doors.e2b.answers import Refusal
from cloche.doors.e2b.network import checked_settings, policy_of
from cloche.model.network import MAX_CONNECTIONS, Network

PUBLIC = Network(allow=["public"], connections=MAX_CONNECTIONS)
ALL = "0.0.0.0/0"


def policy(internet: bool | None = None, bound: Network = PUBLIC, **network: Any) -> Network:
    return policy_of(internet, network, bound)


@pytest.mark.parametrize("internet", [None, True])
def test_internet_is_all_that_the_bound_allows(internet: bool | None) -> None:
    assert policy(internet).allow == ("public", "packages")
    assert policy(internet, Network(allow=["*.example.org"], rate="1M")) == Network(allow=["*.example.org"], rate="1M")
    assert policy(internet, Network()).is_none


@pytest.mark.parametrize("closing", [{"internet": False}, {"denyOut": [ALL]}, {"denyOut": ["::/0"]}])
def test_what_is_allowed_beats_a_denial_of_everything(closing: dict[str, Any]) -> None:
    assert policy(**closing).is_none
    open_to = policy(**closing, allowOut=["api.example.org", "*.example.net", "203.0.113.7"])
    assert open_to.allow[:2] == ("api.example.org", "*.example.net")
    assert {"203.0.113.7/32:22", "203.0.113.7/32:443"} <= set(open_to.allow[2:])
    assert not open_to.deny
    assert policy(**closing, allowOut=[ALL]).allow == ("public", "packages")


def test_a_denied_range_loses_the_part_that_is_allowed() -> None:
    denied = policy(denyOut=["203.0.113.0/24", "2001:db8::/126"], allowOut=["203.0.113.128/25", "2001:db8::"]).deny
    assert set(denied) == {"203.0.113.0/25", "2001:db8::1/128", "2001:db8::2/127"}
    assert not policy(denyOut=["203.0.113.0/24"], allowOut=["203.0.112.0/20"]).deny


def test_ranges_that_fall_into_too_many_parts_are_refused_at_once() -> None:
    """The parts of one list times the parts of the other would keep the server from everybody else for minutes."""
    allowed = [f"2001:db8:{number:x}::1" for number in range(1, 1000)]
    with pytest.raises(Refusal, match="parts"):
        policy(denyOut=["2000::/3"], allowOut=allowed[:900])
    with pytest.raises(Refusal, match="too many"):
        policy(denyOut=[f"10.{number >> 8}.{number & 255}.0/24" for number in range(1000)], allowOut=allowed)


def test_an_allowed_host_beyond_a_narrow_bound_is_asked_for_so_that_it_is_refused_by_name() -> None:
    assert "api.example.net" in policy(None, Network(allow=["*.example.org"]), allowOut=["api.example.net"]).allow


@pytest.mark.parametrize(
    "settings",
    [{"egressProxy": {"address": "x"}}, {"httpsPorts": [8443]}],
)
def test_settings_that_cannot_be_kept_are_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=next(iter(settings))):
        checked_settings(settings)


@pytest.mark.parametrize("settings", [{"denyOut": ["example.org"]}, {"denyOut": "x"}, {"allowOut": [7]}])
def test_settings_of_a_wrong_form_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        policy(**settings)
