"""Translates the network settings of E2B's clients into a policy.

At E2B a sandbox reaches the internet unless its client forbids that, and an allowed address beats a denied one.  Here
the internet is all that the operator and the key allow, and a denied rule beats an allowed one, so denied ranges lose
the parts that are allowed.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from cloche.doors.e2b.answers import Refusal
from cloche.model.network import Network
from cloche.model.network_headers import literal
from cloche.model.network_rules import PUBLIC_PORTS
from cloche.model.secret import Secret
from cloche.policy.network import everything

Range = IPv4Network | IPv6Network

INWARD = ("allowPublicTraffic", "maskRequestHost")  # an update of the outgoing traffic keeps these
_MOST, _MOST_PAIRS = 1000, 50_000
_STORED = re.compile(r"\$\{e2b\.secrets\.([^{}]+)\}")
_UNSUPPORTED = {
    "egressProxy": "network.egressProxy is not supported: sandboxes of this server connect directly.",
    "httpsPorts": "network.httpsPorts is not supported: servers in sandboxes are reached by plain HTTP.",
}


def checked_network(body: dict[str, Any]) -> dict[str, Any]:
    """Return the network settings of a request to create a sandbox."""
    return checked_settings(body.get("network") or {})


def checked_settings(network: Any) -> dict[str, Any]:
    """Return network settings that this server supports."""
    if not isinstance(network, dict):
        raise Refusal(400, "network is an object.")
    for name, why in _UNSUPPORTED.items():
        if network.get(name):
            raise Refusal(400, why)
    return {name: value for name, value in network.items() if value is not None}


def policy_of(internet: Any, network: dict[str, Any], bound: Network) -> Network:
    """Return the policy that settings mean; `internet` is E2B's `allow_internet_access`."""
    headers, secrets = _transforms(network.get("rules") or {})
    return _reachable(internet, network, bound).replace(headers=headers, secrets=secrets)


def shown(network: dict[str, Any], may_run: bool) -> dict[str, Any]:
    """Return the settings as the client sent them; a key that may only read does not see the values of headers."""
    if may_run or not network.get("rules"):
        return network
    return {**network, "rules": {host: [{} for _ in rules] for host, rules in network["rules"].items()}}


def _reachable(internet: Any, network: dict[str, Any], bound: Network) -> Network:
    allowed, denied = _texts(network, "allowOut"), _texts(network, "denyOut")
    allowed_ranges = [found for text in allowed if (found := _range(text)) is not None]
    denied_ranges = [_denied(text) for text in denied]
    is_all_allowed = "*" in allowed or any(not each.prefixlen for each in allowed_ranges)
    is_all_denied = internet is False or any(not each.prefixlen for each in denied_ranges)
    if is_all_denied and not is_all_allowed:
        return Network(allow=_rules(allowed), rate=bound.rate)
    whole = everything(bound)
    if is_all_allowed:
        denied_ranges = []  # the allowed ones win
    if len(denied_ranges) * len(allowed_ranges) > _MOST_PAIRS:
        raise Refusal(400, "network.denyOut and network.allowOut have too many ranges together.")
    more = () if "public" in whole.allow else _rules(text for text in allowed if text != "*" and not _is_all(text))
    denials = (str(part) for each in denied_ranges for part in _without(each, allowed_ranges))
    return whole.replace(allow=(*whole.allow, *more), deny=(*whole.deny, *denials))


def _transforms(rules: Any) -> tuple[dict[str, dict[str, str]], dict[str, Secret]]:
    """Return the headers that rules set, by host, and the stored secrets that they name."""
    headers: dict[str, dict[str, str]] = {}
    hosts_of: dict[str, list[str]] = {}  # by the name of a stored secret
    for host, listed in _items(rules, "network.rules"):
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise Refusal(400, f"network.rules[{host!r:.100}] is a list of objects.")
        for each in listed:
            for name, text in _items((each.get("transform") or {}).get("headers") or {}, "headers"):
                if not isinstance(text, str):
                    raise Refusal(400, f"The header {name!r:.100} is a text.")
                headers.setdefault(host, {})[name] = text
                for stored in _STORED.findall(text):
                    hosts_of.setdefault(stored.lower(), []).append(host)
    names = {stored: f"STORED_{number}" for number, stored in enumerate(hosts_of, 1)}
    for texts in headers.values():
        for name, text in texts.items():
            plain, *others = _STORED.split(text)
            named = zip(others[::2], others[1::2], strict=True)
            texts[name] = literal(plain) + "".join(
                f"${{{names[stored.lower()]}}}{literal(rest)}" for stored, rest in named
            )
    secrets = {names[stored]: Secret("", hosts, variable=False, stored=stored) for stored, hosts in hosts_of.items()}
    return headers, secrets


def _items(given: Any, what: str) -> list[tuple[str, Any]]:
    if not isinstance(given, dict):
        raise Refusal(400, f"{what} is an object.")
    return list(given.items())


def _texts(network: dict[str, Any], name: str) -> list[str]:
    value = network.get(name) or []
    if not isinstance(value, list) or len(value) > _MOST or not all(isinstance(each, str) for each in value):
        raise Refusal(400, f"network.{name} is a list of at most {_MOST} texts.")
    return value


def _range(text: str) -> Range | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _is_all(text: str) -> bool:
    found = _range(text)
    return found is not None and not found.prefixlen


def _denied(text: str) -> Range:
    found = _range(text)
    if found is None:
        raise Refusal(400, f"network.denyOut takes addresses and ranges, not {text!r:.100}.")
    return found


def _rules(texts: Any) -> tuple[str, ...]:
    """Rules for the web ports of names, and for all ports that `public` has of ranges: at E2B these have every port."""
    found: list[str] = []
    for text in texts:
        known = _range(text)
        if known is None:
            found.append(text)
        else:
            shown = f"[{known.network_address}]/{known.prefixlen}" if known.version == 6 else str(known)
            found += (f"{shown}:{port}" for port in PUBLIC_PORTS)
    return tuple(found)


def _without(whole: Range, parts: list[Range]) -> list[Range]:
    """Return what is left of a range without others."""
    left = [whole]
    for part in parts:
        left = [piece for each in left for piece in _less(each, part)]
        if len(left) > _MOST:  # more than a policy can have, and every step is for each of them
            raise Refusal(400, "network.allowOut divides the ranges of network.denyOut into too many parts.")
    return left


def _less(whole: Range, part: Range) -> list[Range]:
    if whole.version != part.version or not whole.overlaps(part):
        return [whole]
    if whole.subnet_of(part):  # type: ignore[arg-type]  # of one version
        return []
    return list(whole.address_exclude(part))  # type: ignore[arg-type]
