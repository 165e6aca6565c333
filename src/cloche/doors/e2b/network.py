"""Checks the network settings of E2B's clients: a sandbox has only a loopback network."""

from __future__ import annotations

from typing import Any

from cloche.doors.e2b.answers import Refusal

_OUTWARD = ("allowOut", "rules", "egressProxy")


def checked_network(body: dict[str, Any]) -> dict[str, Any]:
    """Return the network settings of a request; settings for outgoing traffic are refused, since there is none."""
    network = body.get("network") or {}
    if not isinstance(network, dict):
        raise Refusal(400, "network is an object.")
    for name in _OUTWARD:
        if network.get(name):
            raise Refusal(400, f"network.{name} is not supported: sandboxes of this server have no way out.")
    if network.get("httpsPorts"):
        raise Refusal(400, "network.httpsPorts is not supported: servers in sandboxes are reached by plain HTTP.")
    return {name: value for name, value in network.items() if value is not None}
