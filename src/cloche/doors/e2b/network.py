"""What E2B's clients wish of a network, held against what there is: a sandbox has its own loopback alone."""

from __future__ import annotations

from typing import Any

from cloche.doors.e2b.answers import Refusal

_WAYS_OUT = ("allowOut", "rules", "egressProxy")


def checked_network(told: dict[str, Any]) -> dict[str, Any]:
    """The rules of a request; those that would let something out are refused, since nothing gets out."""
    network = told.get("network") or {}
    if not isinstance(network, dict):
        raise Refusal(400, "network is an object.")
    for name in _WAYS_OUT:
        if network.get(name):
            raise Refusal(400, f"network.{name} is not supported: sandboxes of this server have no way out.")
    if network.get("httpsPorts"):
        raise Refusal(400, "network.httpsPorts is not supported: servers in sandboxes are reached by plain HTTP.")
    return {name: value for name, value in network.items() if value is not None}
