"""Message sockets that carry descriptors, without the `socket` module, which brings `enum` and more along."""

from __future__ import annotations

from _socket import (
    AF_INET,
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SOCK_DGRAM,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
    socketpair,
)
from _struct import calcsize, pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Socket = socket
DONTWAIT = MSG_DONTWAIT
MAX_CLAIM = 64 << 10  # bytes of a message that asks a nursery for a sandbox


def pair() -> tuple[Socket, Socket]:
    """Two ends of a connection that keeps messages apart."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    return ours, theirs


def stream_pair() -> tuple[Socket, Socket]:
    """Two ends of a byte stream."""
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    return ours, theirs


def adopt(fd: int) -> Socket:
    """The message socket behind a descriptor."""
    return socket(AF_UNIX, SOCK_SEQPACKET, 0, fd)


def for_ioctl() -> Socket:
    """A socket that is good for asking about network interfaces."""
    return socket(AF_INET, SOCK_DGRAM)


def send(to: Socket, message: bytes, descriptors: Sequence[int] = (), flags: int = 0) -> None:
    """Send one message, with descriptors attached."""
    rights = [(SOL_SOCKET, SCM_RIGHTS, pack(f"{len(descriptors)}i", *descriptors))] if descriptors else []
    to.sendmsg([message], rights, flags | MSG_NOSIGNAL)


def receive(source: Socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """One message and at most so many descriptors; nothing at the end."""
    message, ancillary, _, _ = source.recvmsg(size, CMSG_SPACE(most * calcsize("i")), MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            descriptors += unpack(f"{len(data) // calcsize('i')}i", data)
    return message, descriptors
