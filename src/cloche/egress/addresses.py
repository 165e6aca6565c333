"""Which addresses are closed to sandboxes: all that are not public, unless the operator has opened them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

# Besides the ranges that `is_global` knows, which differ between versions of Python.
_CLOSED: dict[int, tuple[Range, ...]] = {
    4: tuple(
        map(
            IPv4Network,
            (
                *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
                *("192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3"),
                "168.63.129.16/32",  # the metadata service of Azure
            ),
        )
    ),
    6: tuple(
        map(
            IPv6Network,
            (
                *("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16"),
                *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "3fff::/20"),
            ),
        )
    ),
}


_UNICAST = IPv6Network("2000::/3")  # all public IPv6 addresses are in it; overlays use others
_GET_ROUTE, _NEW_ROUTE, _REQUEST = 26, 24, 1  # RTM_GETROUTE, RTM_NEWROUTE, NLM_F_REQUEST
_HERE = (2, 3, 4)  # RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST


def parse(text: str) -> Address:
    """An address as the kernel or a resolver wrote it; one that is mapped from IPv4 becomes that."""
    address = ip_address(text.partition("%")[0])
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def ranges(texts: Iterable[str]) -> tuple[Range, ...]:
    return tuple(ip_network(text, strict=False) for text in texts)


def within(address: Address, among: Iterable[Range]) -> bool:
    return any(address.version == each.version and address in each for each in among)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not within(address, _CLOSED[address.version])


def is_local(address: Address) -> bool:
    """Whether connections to an address stay on this host, by the kernel's own routes."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    wanted = struct.pack("HH", 4 + len(address.packed), 1) + address.packed  # RTA_DST
    body = struct.pack("BBBBBBBBI", family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0) + wanted
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.send(struct.pack("IHHII", 16 + len(body), _GET_ROUTE, _REQUEST, 1, 0) + body)
        answer = kernel.recv(4096)
    (kind,) = struct.unpack_from("H", answer, 4)
    return kind == _NEW_ROUTE and answer[16 + 7] in _HERE
