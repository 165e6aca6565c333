"""Stand-in addresses: each name that a sandbox looks up gets one, so a connection to it says which name was meant."""

from __future__ import annotations

from hashlib import blake2s
from ipaddress import IPv4Address, IPv6Address

from cloche.egress.addresses import Address

MAX_NAMES = 4096  # that one sandbox can look up
_FIRST, _SIZE = int(IPv4Address("198.18.1.0")), (1 << 17) - 256  # 198.18.0.0/15 without its first 256 addresses
_ABOVE = int(IPv6Address("fd63:6c6f:6368:65:1::"))


class StandIns:
    """The names that one sandbox has looked up.  An address is never given to another name while the sandbox lives."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def slot(self, name: str) -> int | None:
        """The number of a name; None when the sandbox has looked up too many."""
        found = self._slots.get(name)
        if found is None and len(self._slots) < MAX_NAMES:
            # By a hash, so that the same name has the same address in each sandbox and after a restore.
            found = int.from_bytes(blake2s(name.encode()).digest()[:8], "big") % _SIZE
            while found in self._names:
                found = (found + 1) % _SIZE
            self._slots[name], self._names[found] = found, name
        return found

    def name_of(self, address: Address) -> str | None:
        """The name that an address stands for."""
        base = _FIRST if isinstance(address, IPv4Address) else _ABOVE
        return self._names.get(int(address) - base)


def ipv4(slot: int) -> bytes:
    return IPv4Address(_FIRST + slot).packed


def ipv6(slot: int) -> bytes:
    return IPv6Address(_ABOVE + slot).packed


def is_stand_in(address: Address) -> bool:
    """Whether an address is in the ranges of stand-ins, whether or not a name has it."""
    base = _FIRST - 256 if isinstance(address, IPv4Address) else _ABOVE
    return base <= int(address) < base + 256 + _SIZE
