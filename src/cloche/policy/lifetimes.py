"""The operator's bounds on how long a sandbox lives and how long it may be idle."""

from __future__ import annotations

from cloche.configuration import Configuration
from cloche.model.limits import within


def ttl_for(requested: float | None, configuration: Configuration) -> float:
    """The seconds that a new sandbox lives."""
    return _bounded("ttl", requested, configuration.ttl, configuration.max_ttl)


def idle_timeout_for(requested: float | None, configuration: Configuration) -> float:
    """The seconds without work after which a new sandbox ends."""
    return _bounded("idle_timeout", requested, configuration.idle_timeout, configuration.max_ttl)


def longest_unless(name: str, requested: float | None, configuration: Configuration) -> float:
    """A changed lifetime; None is as long as the operator allows."""
    return _bounded(name, requested, configuration.max_ttl, configuration.max_ttl)


def _bounded(name: str, requested: float | None, default: float, most: float) -> float:
    return min(default, most) if requested is None else within(name, requested, 0.001, most, "seconds")
