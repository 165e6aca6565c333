"""Bounds the packages that callers install: by the operator's policy (CLOCHE_PACKAGES), and by the policy of their key.

A key narrows the operator's policy and never widens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from json import dumps, loads
from typing import Any

from cloche.errors import InvalidRun
from cloche.packages.policy import PackagePolicy, policy_of
from cloche.policy.caller import Caller


def policy_for(caller: Caller, operators: PackagePolicy) -> PackagePolicy:
    """The policy for everything that a caller installs, also by `pip install` in a sandbox of theirs."""
    section = caller.policy.packages
    if not section:
        return operators
    # To find the names that two long lists share takes long, and every run of the key asks for them.
    return _narrowed(dumps(operators.as_dict()), dumps(dict(section)))


@lru_cache(maxsize=256)
def _narrowed(operators: str, section: str) -> PackagePolicy:
    wide: dict[str, Any] = loads(operators)
    # A field that the key does not have must not narrow anything: its default may be stricter than the operator's.
    return policy_of(wide).narrowed(policy_of({**wide, **loads(section)}))


def checked_section(given: object) -> dict[str, Any]:
    """The section `packages` of a key's policy: "none", a list of names, or the fields of a policy."""
    if given == "none" or isinstance(given, list | tuple):
        if not given:
            raise InvalidRun("A key's list of packages is empty.", hint='Write "none" if it may install nothing.')
        given = {"allow": given}
    policy = policy_of(given)  # type: ignore[arg-type]  # it checks the type
    fields = policy.as_dict()
    return {name: fields[name] for name in fields if isinstance(given, Mapping) and given.get(name) is not None}
