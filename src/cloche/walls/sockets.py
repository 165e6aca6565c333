"""Sockets that keep messages apart and carry descriptors, without `socket`, which imports `enum` and more."""

from __future__ import annotations

from _socket import (
    AF_INET,
    AF_UNIX,
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    MSG_NOSIGNAL,
    SCM_RIGHTS,
    SO_SNDBUF,
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
_STREAM_BUFFER = 512 << 10  # bytes under way in a stream, as far as the host allows: both ends work at the same time


def pair() -> tuple[Socket, Socket]:
    """The two ends of a connection that keeps messages apart."""
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET)
    return ours, theirs


def stream_pair() -> tuple[Socket, Socket]:
    """The two ends of a byte stream."""
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    return ours, theirs


def stream_and_leash(first: bytes = b"") -> tuple[Socket, Socket, Socket, Socket]:
    """The sockets of a new sandbox: the engine's and the agent's end of its stream, then the engine's and the warden's
    end of its leash.  `first`, which is short, is in the stream already."""
    stream, agents_end = stream_pair()
    try:
        for end in (stream, agents_end):
            end.setsockopt(SOL_SOCKET, SO_SNDBUF, _STREAM_BUFFER)
        stream.sendall(first)
        return (stream, agents_end, *pair())
    except OSError:
        stream.close()
        agents_end.close()
        raise


def adopt(fd: int) -> Socket:
    """The message socket behind a descriptor."""
    return socket(AF_UNIX, SOCK_SEQPACKET, 0, fd)


def for_ioctl() -> Socket:
    """A socket for questions about network interfaces."""
    return socket(AF_INET, SOCK_DGRAM)


def send(to: Socket, message: bytes, descriptors: Sequence[int] = (), flags: int = 0) -> None:
    """Send one message, with descriptors attached."""
    rights = [(SOL_SOCKET, SCM_RIGHTS, pack(f"{len(descriptors)}i", *descriptors))] if descriptors else []
    to.sendmsg([message], rights, flags | MSG_NOSIGNAL)


def receive(source: Socket, size: int, most: int, flags: int = 0) -> tuple[bytes, list[int]]:
    """Receive one message with at most `most` descriptors; empty when the other end is closed."""
    message, ancillary, _, _ = source.recvmsg(size, CMSG_SPACE(most * calcsize("i")), flags | MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for level, kind, data in ancillary:
        if level == SOL_SOCKET and kind == SCM_RIGHTS:
            descriptors += unpack(f"{len(data) // calcsize('i')}i", data)
    return message, descriptors
