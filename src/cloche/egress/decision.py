"""Decides whether a sandbox may connect to a host: the one place, for every way in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cloche.egress import addresses
from cloche.egress.addresses import Address, Range
from cloche.errors import ClocheError
from cloche.model.network import Network
from cloche.model.network_rules import Rule, rule, rule_for

PUBLIC = "public"
_PRIVATE = "The operator of Cloche can open ranges of addresses with the setting network_private."


class Verdict(NamedTuple):
    """A decision, with the rule that made it and, for a refusal, why, what to do, and the rule that would allow it."""

    is_allowed: bool
    rule: str
    reason: str = ""
    remedy: str = ""
    allow: str = ""


class NotAllowed(ClocheError):
    """A connection is refused, or could not be made; `rule` is the rule that refuses it, if one does."""

    def __init__(self, reason: str, remedy: str = "", rule: str = "", status: int = 403) -> None:
        super().__init__(reason, remedy)
        self.rule, self.status = rule, status


class Policy:
    """A sandbox's policy, compiled.

    `indexes` are the hosts and ports of the package indexes, which may have any address.  `ours` are ports on which
    Cloche itself listens on this host.
    """

    def __init__(
        self,
        network: Network,
        private: Iterable[str] = (),
        hosts: Mapping[str, str] | None = None,
        indexes: Iterable[tuple[str, int]] = (),
        ours: Iterable[int] = (),
    ) -> None:
        self.network = network
        self.hosts = dict(hosts or {})
        self._private = addresses.ranges(private)
        self._indexes, self._ours = frozenset(indexes), frozenset(ours)
        self._denied = network.denied()
        self._allowed = network.allowed()
        self._denied_ranges = _ranges(self._denied)
        self._denies_packages = any(each.value == "packages" for each in self._denied)
        self._allowed_ranges = _ranges(self._allowed)
        self.has_packages = rule("packages") in self._allowed

    def may_resolve(self, name: str) -> bool:
        """Whether a name is allowed on some port, so that it may be looked up outside."""
        if any(each.covers_name(name) and each.port is None for each in self._denied):
            return False
        return any(each.covers_name(name) for each in self._allowed) or self._is_index_host(name)

    def of_name(self, name: str, port: int) -> Verdict:
        """Decide about a name, before it is looked up."""
        if (denied := self.denial(name, port)) is not None:
            return denied
        if self.has_packages and (name, port) in self._indexes:
            return Verdict(True, "packages")
        other = ""
        for each in self._allowed:
            if each.covers_name(name):
                if port in each.ports():
                    return Verdict(True, str(each))
                other = other or str(each)
        missing = rule_for(name, port)
        remedy = f"Add {missing} to the sandbox's network policy."
        if other:
            return Verdict(False, other, f"the rule {other} does not cover port {port}", remedy, missing)
        return Verdict(False, "", "no rule of the network policy allows it", remedy, missing)

    def denial(self, name: str, port: int) -> Verdict | None:
        """The refusal by a rule of `deny`, also of a name that a program only mentions; None if no rule denies it."""
        for each in self._denied:
            if each.covers_name(name) and (each.port is None or each.port == port):
                return _denial(each)
        if self._denies_packages and (name, port) in self._indexes:
            return _denial(rule("packages"))
        return None

    def of_address(self, address: Address, port: int) -> Verdict:
        """Decide about an address that a program used without a name."""
        if not self._is_open(address):
            return Verdict(False, "", f"this address is closed, since {_why_closed(address)}", _PRIVATE)
        if (denied := self._denies(address, port)) is not None:
            return _denial(denied)
        if self._is_ours(address, port):
            return Verdict(False, "", "Cloche itself listens there")
        for each, range_ in self._allowed_ranges:
            if addresses.within(address, [range_]) and port in each.ports():
                return Verdict(True, str(each))
        for each in self._allowed:
            if _is_any(each) and port in each.ports():
                return Verdict(True, str(each))
        missing = rule_for(str(address), port)
        remedy = f"Use a name, or add {missing} to the sandbox's network policy."
        return Verdict(False, "", "no rule of the network policy allows this address", remedy, missing)

    def usable(self, name: str, port: int, found: Iterable[Address]) -> list[Address]:
        """The addresses of an allowed name to which a connection may be made; raises NotAllowed if there is none."""
        is_index = self.has_packages and (name, port) in self._indexes
        usable, reason, ruled = [], "", ""
        for address in found:
            if (denied := self._denies(address, port)) is not None:
                reason, ruled = f"the policy denies {denied}, and the name leads there", f"deny {denied}"
            elif self._is_ours(address, port):
                reason = "Cloche itself listens there"
            elif is_index or self._is_open(address):
                usable.append(address)
            else:
                reason = f"the name leads to {address}, which is closed, since {_why_closed(address)}"
        if not usable:
            remedy = _PRIVATE if "closed" in reason else ""
            raise NotAllowed(reason or "the name has no address", remedy, ruled)
        return usable

    def _denies(self, address: Address, port: int) -> Rule | None:
        """The rule of `deny` that covers an address."""
        for each in self._denied:
            if _is_any(each) and each.port in (None, port):
                return each
        for each, range_ in self._denied_ranges:
            if each.port in (None, port) and addresses.within(address, [range_]):
                return each
        return None

    def _is_open(self, address: Address) -> bool:
        # Services on this host's own public address may rely on a firewall, which does not see connections from here.
        is_public = addresses.is_public(address) and not addresses.is_local(address)
        return is_public or addresses.within(address, self._private)

    def _is_ours(self, address: Address, port: int) -> bool:
        return port in self._ours and (address.is_loopback or address.is_unspecified or addresses.is_local(address))

    def _is_index_host(self, name: str) -> bool:
        return self.has_packages and any(name == host for host, _ in self._indexes)


def _ranges(rules: Iterable[Rule]) -> list[tuple[Rule, Range]]:
    return [(each, each.network()) for each in rules if each.kind == "addresses"]


def _is_any(each: Rule) -> bool:
    """Whether a rule covers every host."""
    return each.kind == "any" or (each.kind == "preset" and each.value == PUBLIC)


def _denial(each: Rule) -> Verdict:
    return Verdict(False, f"deny {each}", f"the policy denies {each}", "Remove that rule from `deny`.")


def _why_closed(address: Address) -> str:
    return "it belongs to Cloche's own host" if addresses.is_public(address) else "it is not public"
