"""The bounds on what callers install: the operator's policy, narrowed by a key's."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.errors import InvalidRun, Refused
from cloche.model.packages import requirements_of
from cloche.packages.policy import PackagePolicy
from cloche.policy.caller import Caller
from cloche.policy.key_policy import checked_policy
from cloche.policy.packages import policy_for


def caller(packages: Any = None) -> Caller:
    return Caller(
        "key_1", "ada", frozenset({"run"}), checked_policy({} if packages is None else {"packages": packages})
    )


def test_without_a_section_the_operators_policy_is_in_force() -> None:
    operators = PackagePolicy(deny=["torch"], size="1G")
    assert policy_for(caller(), operators) == operators


def test_a_field_that_a_key_does_not_have_narrows_nothing() -> None:
    """The defaults of a policy are stricter than what this operator allows."""
    operators = PackagePolicy(size="1G", count=1000, min_age_days="off", lookalikes="off", sources=["six"])
    got = policy_for(caller({"deny": ["torch"]}), operators)
    assert got == PackagePolicy(
        deny=["torch"], size="1G", count=1000, min_age_days="off", lookalikes="off", sources=["six"]
    )


def test_a_key_narrows_and_never_widens() -> None:
    operators = PackagePolicy(allow=["django-*", "six"], deny=["django-evil"], size="10M", min_age_days=7)
    got = policy_for(caller({"allow": ["django-rest*", "numpy"], "size": "1G", "min_age_days": "off"}), operators)
    assert got.allow == ("django-rest*",)
    assert (got.deny, got.size, got.min_age_days) == (("django-evil",), 10 << 20, 7)
    stricter = policy_for(caller({"size": "1M", "hashes": True, "deny": ["six"]}), operators)
    assert (stricter.size, stricter.hashes, stricter.deny) == (1 << 20, True, ("django-evil", "six"))


@pytest.mark.parametrize("section", ["none", ["none"], {"allow": "none"}])
def test_a_key_with_none_installs_nothing(section: Any) -> None:
    got = policy_for(caller(section), PackagePolicy())
    with pytest.raises(Refused, match=r"six .*packages\.allow"):
        got.check_request(requirements_of(["six"], "python"))


def test_a_list_of_names_is_the_list_of_those_that_are_allowed() -> None:
    got = policy_for(caller(["six"]), PackagePolicy())
    assert got.check_request(requirements_of(["six"], "python")) == []
    with pytest.raises(Refused, match="numpy"):
        got.check_request(requirements_of(["numpy"], "python"))


@pytest.mark.parametrize("section", ["all", 7, [], {"alow": ["six"]}, {"size": "much"}, ["http://x/"]])
def test_a_section_that_makes_no_sense_makes_no_key(section: Any) -> None:
    with pytest.raises(InvalidRun):
        caller(section)


def test_a_section_is_stored_as_it_was_written_and_no_more() -> None:
    section = {"allow": ["six"], "size": 1 << 20}
    policy = checked_policy({"packages": {"allow": ["six"], "size": "1M", "deny": None}})
    assert policy.as_dict() == {"packages": section}
    assert checked_policy(policy.as_dict()) == policy
