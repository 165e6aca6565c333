"""Shares the server's connections: few for strangers, the rest for keys, and one key keeps no other out.

A connection is a stranger's until a request on it has shown a valid key or token.  Connections can be taken back, so
they are given freely: a newcomer displaces another connection when there are too many (docs/decisions/0020).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from cloche.policy.refusals import Busy

MAX_CONNECTIONS = 2000
_RETRY_S = 5.0
_SUBNET = 4  # groups of an IPv6 address that one customer of a provider usually has to itself


class Visitor:
    """The client of one connection."""

    __slots__ = ("_visitors", "is_idle", "make_way", "party")

    def __init__(self, visitors: Visitors, party: str, make_way: Callable[[], None]) -> None:
        self._visitors, self.party = visitors, party
        self.make_way = make_way  # closes the connection, because another needs the place
        self.is_idle = False  # between two requests

    def show_key(self, key_id: str) -> None:
        """Count this connection as one of the key's from now on; raise Busy if the keys have too many."""
        if self.party != key_id:
            self._visitors.recognize(self, key_id)

    def leave(self) -> None:
        """Give the place back."""
        self._visitors.forget(self)


class Visitors:
    """All visitors, in the order in which they came."""

    def __init__(self, at_most: int = MAX_CONNECTIONS, descriptors: int = sys.maxsize) -> None:
        self._most_strangers = max(1, at_most // 8)
        self._most_known = max(1, at_most - self._most_strangers)
        self._descriptors = descriptors  # that may be in use when a connection comes
        self._strangers = _Parties()  # by address
        self._known = _Parties()  # by key

    def arrive(self, address: str, make_way: Callable[[], None], descriptor: int = 0) -> Visitor:
        """Count a new connection.  When there are too many strangers, the oldest of the busiest address has to go.

        The kernel gives out the lowest free `descriptor`, so its number tells how many are in use.
        """
        while self._strangers.count >= self._most_strangers:
            self._displace(self._strangers, self._oldest_stranger())
        if descriptor >= self._descriptors:
            self.make_room()
        visitor = Visitor(self, _neighbourhood(address), make_way)
        self._strangers.add(visitor)
        return visitor

    def make_room(self) -> None:
        """Close a connection, because descriptors are short: a stranger's, or one of the key that has most."""
        if self._strangers.count:
            self._displace(self._strangers, self._oldest_stranger())
        elif self._known.count:
            self._displace(self._known, _least_busy(self._known.largest()))

    def recognize(self, visitor: Visitor, key_id: str) -> None:
        """Move a visitor to the key that it has shown."""
        if not self._remove(visitor):
            return  # it was displaced a moment ago
        while self._known.count >= self._most_known:
            largest, own = self._known.largest(), self._known.of(key_id)
            idle = next((each for each in own if each.is_idle), None)
            if len(largest) > len(own) + 1:
                self._displace(self._known, _least_busy(largest))
            elif idle is not None:
                self._displace(self._known, idle)
            else:
                visitor.party = ""
                self._strangers.add(visitor)
                raise Busy(
                    "There are too many connections.",
                    "Close connections that you no longer need, or try again later.",
                    retry_after=_RETRY_S,
                )
        visitor.party = key_id
        self._known.add(visitor)

    def forget(self, visitor: Visitor) -> None:
        """Stop counting a visitor."""
        self._remove(visitor)

    def counts(self) -> tuple[int, int]:
        """Return the number of strangers and of connections with keys."""
        return self._strangers.count, self._known.count

    def _oldest_stranger(self) -> Visitor:
        return next(iter(self._strangers.largest()))

    def _remove(self, visitor: Visitor) -> bool:
        return self._strangers.remove(visitor) or self._known.remove(visitor)

    def _displace(self, parties: _Parties, visitor: Visitor) -> None:
        parties.remove(visitor)
        visitor.make_way()


class _Parties:
    """Visitors by party: an address or a key."""

    def __init__(self) -> None:
        self._members: dict[str, dict[Visitor, None]] = {}
        self.count = 0

    def of(self, party: str) -> dict[Visitor, None]:
        return self._members.get(party, {})

    def largest(self) -> dict[Visitor, None]:
        return max(self._members.values(), key=len)

    def add(self, visitor: Visitor) -> None:
        self._members.setdefault(visitor.party, {})[visitor] = None
        self.count += 1

    def remove(self, visitor: Visitor) -> bool:
        """Remove a visitor; return whether it was there."""
        members = self._members.get(visitor.party)
        if members is None or visitor not in members:
            return False
        del members[visitor]
        if not members:
            del self._members[visitor.party]
        self.count -= 1
        return True


def _least_busy(members: dict[Visitor, None]) -> Visitor:
    """A visitor between two requests, or else the newest."""
    return next((each for each in members if each.is_idle), None) or next(reversed(members))


def show_key(scope: Any, key_id: str) -> None:
    """Note that the request in this scope has shown a key, or a token that belongs to it."""
    visitor: Visitor | None = scope.get("state", {}).get("visitor")
    if visitor is not None:
        visitor.show_key(key_id)


def _neighbourhood(address: str) -> str:
    """The address, or for IPv6 the part of it that one customer has: the rest is free to choose."""
    return ":".join(address.split(":")[:_SUBNET]) if ":" in address else address
