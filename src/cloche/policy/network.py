"""Bounds the network policies that callers ask for: by the operator's `max_network`, and by the policy of their key.

A bound is a `Network` as well.  As a bound, the preset `public` covers every name, every public address and every port,
and the preset `packages`.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

from cloche.configuration import Configuration
from cloche.errors import InvalidRun, Refused
from cloche.model.network import CONNECTIONS, MAX_CONNECTIONS, Network, NetworkPolicy
from cloche.model.network_rules import Rule, rule
from cloche.model.secret import Secret
from cloche.policy.caller import Caller

_BY_OPERATOR = "The operator can allow more with `max_network` in the server's configuration."
_BY_KEY = "Use a key that may reach more; an admin creates keys with POST /v1/keys."
_SHOWN = 10  # rules that a refusal names


def policy_for(requested: Network, caller: Caller, configuration: Configuration) -> NetworkPolicy:
    """What a caller asks for, the bound on it, and what the caller gets; raises Refused beyond the bound."""
    bound = bound_for(caller, configuration)
    if requested == Network():
        return NetworkPolicy(requested, bound, requested)
    for secret in requested.secrets.values():
        if secret.is_kept:
            raise InvalidRun("A secret of a new sandbox needs its value.", hint='Write {"value": "…", "hosts": ["…"]}.')
    _check(requested, _operators(configuration), "on this server", _BY_OPERATOR)
    return NetworkPolicy(requested, bound, bounded(requested, bound, "with this key", _BY_KEY))


def bound_for(caller: Caller, configuration: Configuration) -> Network:
    """The most that a caller's sandboxes may reach."""
    operators = _operators(configuration)
    return narrowed(operators, Network(**caller.policy.network)) if caller.policy.network else operators


def bounded(requested: Network, bound: Network, where: str = "here", hint: str = _BY_OPERATOR) -> Network:
    """The policy that is in force; raises Refused with the rule that is beyond the bound.

    Rates and amounts beyond the bound are reduced to it, and the bound's denied rules are added.
    """
    _check(requested, bound, where, hint)
    return requested.replace(
        deny=tuple(dict.fromkeys((*requested.deny, *bound.deny))),
        rate=_least(requested.rate, bound.rate),
        bytes=_least(requested.bytes, bound.bytes),
        connections=min(requested.connections, bound.connections),
    )


def narrowed(first: Network, second: Network) -> Network:
    """What both bounds allow."""
    return Network(
        allow=_common(first.allow, second.allow),
        deny=tuple(dict.fromkeys((*first.deny, *second.deny))),
        rate=_least(first.rate, second.rate),
        bytes=_least(first.bytes, second.bytes),
        connections=min(first.connections, second.connections),
    )


def everything(bound: Network) -> Network:
    """The policy that reaches all that a bound allows, for clients that ask for the internet and name no host."""
    # As a bound, `public` includes the package indexes, which may have private addresses; as a policy it does not.
    more = ("packages",) if "public" in bound.allow else ()
    return bound.replace(
        allow=tuple(dict.fromkeys((*bound.allow, *more))), connections=min(bound.connections, CONNECTIONS)
    )


def with_kept_secrets(requested: Network, before: Network) -> Network:
    """A policy in which each secret without a value has the value that it had before."""
    secrets = {name: _kept(name, secret, before) for name, secret in requested.secrets.items()}
    return requested.replace(secrets=secrets)


def _kept(name: str, secret: Secret, before: Network) -> Secret:
    if not secret.is_kept:
        return secret
    known = before.secrets.get(name)
    if known is None:
        raise InvalidRun(f"The sandbox has no secret {name} to keep.", hint="Send its value, or leave the secret out.")
    if not set(secret.hosts) <= set(known.hosts):
        # Who may change a policy need not be who knows the value: a new host could be one that shows it.
        raise InvalidRun(f"The secret {name} was given for other hosts.", hint="Send its value with the new hosts.")
    return known.with_hosts(secret.hosts)


def _operators(configuration: Configuration) -> Network:
    rate = configuration.max_network_rate or None
    return Network(allow=configuration.max_network, rate=rate, connections=MAX_CONNECTIONS)


def _check(requested: Network, bound: Network, where: str, hint: str) -> None:
    allowed, denied = bound.allowed(), bound.denied()
    for each in requested.allowed():
        if any(one.includes(each) for one in denied):
            raise Refused(f"The network rule {each} is denied {where}.", hint=hint)
        if not all(any(one.includes(part) for one in allowed) for part in _by_port(each)):
            raise Refused(
                f"The network rule {each} is not allowed {where}.", hint=f"Allowed: {_listed(bound.allow)}. {hint}"
            )


def _by_port(wanted: Rule) -> tuple[Rule, ...]:
    """A rule as one rule for each of its ports: the bound may name these one by one."""
    if wanted.kind == "preset" or wanted.port is not None:
        return (wanted,)
    return tuple(wanted.replace(port=port) for port in wanted.ports())


def _listed(allowed: tuple[str, ...]) -> str:
    more = f" and {len(allowed) - _SHOWN} more" if len(allowed) > _SHOWN else ""
    return (", ".join(allowed[:_SHOWN]) or "nothing") + more


@lru_cache(maxsize=256)
def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """The rules that cover what some rule of both lists covers."""
    pairs = product(map(rule, first), map(rule, second))
    found = (_overlap(one, other) for one, other in pairs)
    return tuple(dict.fromkeys(str(each) for each in found if each is not None))


def _overlap(one: Rule, other: Rule) -> Rule | None:
    if _is_public(one) or _is_public(other):
        return other if _is_public(one) else one
    if one.replace(port=1).includes(other.replace(port=1)):
        narrower, wider = other, one
    elif other.replace(port=1).includes(one.replace(port=1)):
        narrower, wider = one, other
    else:
        return None
    ports = set(narrower.ports()) & set(wider.ports())
    if not ports:
        return None
    return narrower if ports == set(narrower.ports()) else narrower.replace(port=ports.pop())


def _is_public(one: Rule) -> bool:
    return one.kind == "preset" and one.value == "public"


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
