"""The policy of a key: one object with a section for each subject that an operator can restrict.

A new section is a field of `KeyPolicy` and a row in `_SECTIONS`.  The store keeps the whole object as JSON, so that a
section needs no migration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloche.errors import InvalidRun
from cloche.model.network import MAX_CONNECTIONS, Network, network_of
from cloche.nearest import did_you_mean
from cloche.policy.meter import RATES

_WHOLE = ("runs_at_once", "sandboxes")
_BOUNDS = ("allow", "deny", "rate", "bytes", "connections")


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """What a key may use.  A limit that is not in `limits` does not exist.

    `network` bounds what sandboxes reach, and `packages` what may be installed in them.
    """

    limits: Mapping[str, float] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)  # arguments of `Network`; empty: only the operator's bound
    packages: Mapping[str, Any] = field(default_factory=dict)  # fields of `PackagePolicy`; empty: only the operator's

    def as_dict(self) -> dict[str, Any]:
        """The sections that say something, as JSON has them."""
        return {name: dict(section) for name in _SECTIONS if (section := getattr(self, name))}


def checked_policy(given: object) -> KeyPolicy:
    """A policy from an administrator or the store.  An unknown section fails: to ignore it would be to allow."""
    if not isinstance(given, Mapping):
        raise InvalidRun(f"policy={shortened(given)} is not an object.", hint=f"Its sections are: {_names()}.")
    for name in given:
        if name not in _SECTIONS:
            raise InvalidRun(
                f"{shortened(name)} is not a section of a key's policy.", hint=_suggestion(name, _SECTIONS, _names())
            )
    return KeyPolicy(**{name: check(given[name]) for name, check in _SECTIONS.items() if given.get(name) is not None})


def _checked_limits(limits: object) -> dict[str, float]:
    known = ", ".join(RATES)
    if not isinstance(limits, Mapping):
        raise InvalidRun(f"limits={shortened(limits)} is not an object.", hint=f"A key can have: {known}.")
    for name in limits:
        if name not in RATES:
            raise InvalidRun(f"{shortened(name)} is not a limit of a key.", hint=_suggestion(name, RATES, known))
    return {name: _checked_limit(name, value) for name, value in limits.items() if value is not None}


def _checked_limit(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise InvalidRun(
            f"The limit {name}={shortened(value)} is not a number above 0.",
            hint="Leave it out for no limit; to forbid runs, leave out the scope.",
        )
    if name in _WHOLE and value != int(value):
        raise InvalidRun(f"The limit {name}={value!r} is not a whole number.", hint="Round it.")
    return value


def _checked_network(given: object) -> dict[str, Any]:
    """A preset, a list of rules, or an object with `allow`, `deny`, `rate`, `bytes` and `connections`.

    An object without `allow` bounds the rest alone.
    """
    if isinstance(given, Mapping):
        for name in given:
            if name not in _BOUNDS:
                raise InvalidRun(
                    f"{shortened(name)} does not bound the network of a key.",
                    hint=_suggestion(name, dict.fromkeys(_BOUNDS), ", ".join(_BOUNDS)),
                )
        if not given:
            return {}
        given = {"allow": ["public"], "connections": MAX_CONNECTIONS, **given}
        given["allow"] = network_of(given["allow"]).allow
        bound = Network(**given)
    else:
        bound = network_of(given).replace(connections=MAX_CONNECTIONS)  # type: ignore[arg-type]  # it checks the type
    fields = bound.as_dict()
    return {name: fields[name] for name in _BOUNDS if fields[name] is not None}


def _checked_packages(given: object) -> dict[str, Any]:
    from cloche.policy.packages import checked_section  # seldom needed; it imports what knows about packages

    return checked_section(given)


_SECTIONS: dict[str, Callable[[object], dict[str, Any]]] = {
    "limits": _checked_limits,
    "network": _checked_network,
    "packages": _checked_packages,
}


def _names() -> str:
    return ", ".join(_SECTIONS)


def _suggestion(name: object, known: Mapping[str, object], listed: str) -> str:
    return did_you_mean(str(name), known, f"There are: {listed}.")


def shortened(value: object) -> str:
    """A value as an error message shows it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
