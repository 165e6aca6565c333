"""Opens listening sockets in a sandbox's network namespace: the way out for a sandbox that may use the network.

In the namespace, a `local default` route delivers every connection to the namespace itself, whatever its address.  So a
socket that listens on all addresses of a port accepts every connection to that port, and `getsockname` returns the
address that the program wanted.  The sockets leave the namespace as descriptors; the egress process accepts on them.

A process of its own does this, because an ordinary user who has entered a namespace cannot return to the host's.  The
nursery starts it for the first sandbox that needs it; it serves all sandboxes of the nursery.
"""

from __future__ import annotations

import errno
import marshal
import os
from _socket import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPV6_RECVPKTINFO,
    IPV6_V6ONLY,
    SO_REUSEADDR,
    SOCK_DGRAM,
    SOCK_RAW,
    SOCK_STREAM,
    SOL_SOCKET,
    inet_pton,
    socket,
)
from _struct import pack, unpack_from

from cloche.walls import sockets
from cloche.walls.jail import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from cloche.walls.jail.sandbox_process import SandboxProcess

DNS_PORT = 53
_IP_PKTINFO = 8
_BACKLOG = 1024
_MAX_REQUEST = 16 << 10
# Programs see these on the loopback interface.  Without an address besides 127.0.0.1, the C library asks for no address
# at all on behalf of programs that want only the kinds of addresses that their machine has.
_ADDRESSES = ((AF_INET, "198.18.0.1", 32), (AF_INET6, "fd63:6c6f:6368:65::1", 128))
_NEW_ADDRESS, _NEW_ROUTE = 20, 24  # RTM_NEWADDR, RTM_NEWROUTE
_FLAGS = 0x1 | 0x4 | 0x400  # NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE
_LOOPBACK = 1  # its index in every namespace
_PERMANENT = 0x80 | 0x02  # IFA_F_PERMANENT, IFA_F_NODAD


class Listeners:
    """The process that opens sockets in the namespaces of a nursery's sandboxes, as the nursery sees it."""

    def __init__(self, disarm: Callable[[], None]) -> None:
        self._disarm = disarm
        self._requests: sockets.Socket | None = None
        self._waiting: dict[int, list[tuple[list[int], int]]] = {}  # by pid: for sandboxes without a namespace yet

    def open(self, sandbox: SandboxProcess, ports: list[int], reply: int) -> None:
        """Have sockets opened on these ports, and sent to `reply` with a message that lists them."""
        if sandbox.network < 0:
            self._waiting.setdefault(sandbox.pid, []).append((ports, reply))
            return
        message = marshal.dumps((not sandbox.is_open, ports))
        sandbox.is_open = True
        try:
            self._send(sandbox.network, message, reply)
        finally:
            os.close(reply)

    def namespace_known(self, sandbox: SandboxProcess) -> None:
        """Serve the requests that came before the sandbox had its namespace."""
        for ports, reply in self._waiting.pop(sandbox.pid, ()) if self._waiting else ():
            self.open(sandbox, ports, reply)

    def forget(self, sandbox: SandboxProcess) -> None:
        """Close the requests of a sandbox that has ended."""
        for _, reply in self._waiting.pop(sandbox.pid, ()) if self._waiting else ():
            os.close(reply)

    def _send(self, network: int, message: bytes, reply: int) -> None:
        for _ in range(2):  # a process that was killed is replaced, once
            if self._requests is None:
                self._requests = self._start()
            try:
                return sockets.send(self._requests, message, (network, reply), sockets.DONTWAIT)
            except OSError:
                self._requests.close()
                self._requests = None

    def _start(self) -> sockets.Socket:
        ours, theirs = sockets.pair()
        if os.fork() == 0:
            try:
                self._disarm()
                linux.prctl(linux.PR_SET_PDEATHSIG, 9)
                linux.close_all_but((0, 1, 2, theirs.fileno()))
                _serve(theirs)
            finally:
                os._exit(0)
        theirs.close()
        return ours


def _serve(requests: sockets.Socket) -> None:
    families: tuple[int, ...] = (AF_INET, AF_INET6)
    while True:
        message, descriptors = sockets.receive(requests, _MAX_REQUEST, 2)
        if not message:
            return
        network, reply = descriptors
        opened: list[tuple[str, int, socket]] = []
        try:
            linux.setns(network, linux.NEWNET)
            is_new, ports = marshal.loads(message)
            families = _prepare() if is_new else families  # the same for all namespaces of a kernel
            answer: dict[str, Any] = {"taken": _open_all(ports, families, opened)}
            answer["listeners"] = [(kind, port) for kind, port, _ in opened]
        except OSError as problem:
            answer = {"failed": str(problem)}
        try:
            sockets.send(sockets.adopt(reply), marshal.dumps(answer), [each.fileno() for _, _, each in opened])
        except OSError:
            pass  # nobody waits for the answer any more
        finally:
            os.close(network)
            for _, _, each in opened:
                each.close()


def _open_all(ports: Sequence[int], families: Sequence[int], opened: list[tuple[str, int, socket]]) -> list[int]:
    """Open the sockets of these ports; return the ports that a program of the sandbox has already."""
    taken = []
    for port in ports:
        kinds = [("tcp", SOCK_STREAM)] + ([("udp", SOCK_DGRAM)] if port == DNS_PORT else [])
        for kind, type_ in kinds:
            for family in families:
                try:
                    opened.append((kind, port, _listen(family, type_, port)))
                except OSError as problem:
                    if problem.errno != errno.EADDRINUSE:
                        raise
                    taken.append(port)
    return taken


def _listen(family: int, kind: int, port: int) -> socket:
    found = socket(family, kind)
    try:
        found.setblocking(False)
        if family == AF_INET6:
            found.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
        if kind == SOCK_DGRAM:  # an answer must come from the address that was asked
            level, option = (IPPROTO_IP, _IP_PKTINFO) if family == AF_INET else (IPPROTO_IPV6, IPV6_RECVPKTINFO)
            found.setsockopt(level, option, 1)
        else:
            found.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)  # connections of earlier sockets may linger
        found.bind(("", port) if family == AF_INET else ("::", port))
        if kind == SOCK_STREAM:
            found.listen(_BACKLOG)
        return found
    except OSError:
        found.close()
        raise


# --- routes


def _prepare() -> tuple[int, ...]:
    """Deliver all connections to this namespace itself; return the families of addresses that the kernel has."""
    families: tuple[int, ...] = ()
    with_netlink = socket(AF_NETLINK, SOCK_RAW, 0)
    try:
        for family, address, length in _ADDRESSES:
            data = inet_pton(family, address)
            head = pack("BBBBI", family, length, _PERMANENT, 0, _LOOPBACK)
            try:
                _ask(with_netlink, _NEW_ADDRESS, head, {2: data, 1: data})  # IFA_LOCAL, IFA_ADDRESS
                _ask(with_netlink, _NEW_ROUTE, *_local_default(family, data))
            except OSError as problem:
                if family == AF_INET or problem.errno not in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.EACCES):
                    raise
                continue  # a kernel without IPv6
            families += (family,)
    finally:
        with_netlink.close()
    return families


def _local_default(family: int, source: bytes) -> tuple[bytes, dict[int, bytes]]:
    # Table 255 is `local`, protocol 4 is `static`, type 2 is `local`; IPv4 wants the scope `host`.
    head = pack("BBBBBBBBI", family, 0, 0, 0, 255, 4, 254 if family == AF_INET else 0, 2, 0)
    attributes = {4: pack("I", _LOOPBACK)}  # RTA_OIF
    if family == AF_INET:
        attributes[7] = source  # RTA_PREFSRC: otherwise a connection comes from the address that it goes to
    return head, attributes


def _ask(with_netlink: socket, kind: int, head: bytes, attributes: dict[int, bytes]) -> None:
    """Send a request to the kernel; what exists already is no error."""
    body = head + b"".join(pack("HH", 4 + len(data), number) + data for number, data in attributes.items())
    with_netlink.send(pack("IHHII", 16 + len(body), kind, _FLAGS, 1, 0) + body)
    answer = with_netlink.recv(4096)
    (number,) = unpack_from("i", answer, 16)
    if number not in (0, -errno.EEXIST):
        raise OSError(-number, os.strerror(-number))
