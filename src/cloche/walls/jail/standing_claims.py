"""The engine's side of claims: what a sandbox is held by, and one that is claimed before anybody asks for it.

A claim goes through the nursery, which takes a while.  So when one is used, the next of its kind is claimed at once,
*patiently*: the nursery sees to it when it has nothing else to do.  Whoever wants it then speaks to its agent directly.
"""

from __future__ import annotations

import marshal
from _socket import SO_SNDBUF, SOL_SOCKET
from time import monotonic

from cloche.walls import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Ends = tuple[sockets.Socket, sockets.Socket]

_UNDER_WAY = 512 << 10  # bytes on the way in a stream, as far as the host allows: both ends can work at the same time
_KINDS = 10  # of sandboxes that are claimed before they are wanted; fewer where a nursery keeps fewer (pool.py)
_RUSH_S = 0.02  # between two claims: then the nursery has better things to do


def connections(first: bytes) -> tuple[sockets.Socket, ...]:
    """The two ends of a stream, on which `first` is under way, and the two ends of a leash."""
    stream = sockets.stream_pair()
    try:
        for end in stream:
            end.setsockopt(SOL_SOCKET, SO_SNDBUF, _UNDER_WAY)
        stream[0].sendall(first)
        return (*stream, *sockets.pair())
    except OSError:
        for end in stream:
            end.close()
        raise


class Stock:
    """Sandboxes of one nursery that are claimed and not used yet: our ends of stream and leash, by the claim's text."""

    def __init__(self, control: sockets.Socket, most: int = _KINDS) -> None:
        self._control, self._most = control, most  # 0: none are kept
        self._ends: dict[bytes, Ends] = {}
        self._last = 0.0

    def take(self, claim: dict[str, Any], first: bytes) -> Ends | None:
        """One for this claim, told to begin with `first`; None when there is none, or it has died."""
        ends = self._ends.pop(_key(claim), None)
        if ends is None:
            return None
        stream, leash = ends
        try:
            sockets.send(stream, first, flags=sockets.DONTWAIT)
            sockets.send(leash, marshal.dumps({"begin": claim["deadline"]}), flags=sockets.DONTWAIT)
            return ends
        except OSError:
            _close(ends)
            return None

    def renew(self, claim: dict[str, Any]) -> None:
        """Claim the next one like this, patiently."""
        before, self._last = self._last, monotonic()
        if not self._most or self._last - before < _RUSH_S:
            return
        try:
            stream, agents_end, leash, nurserys_end = connections(b"")
        except OSError:
            return  # it can be done without
        try:
            message = marshal.dumps({**claim, "deadline": None, "patient": True})
            sockets.send(self._control, message, (agents_end.fileno(), nurserys_end.fileno()), sockets.DONTWAIT)
        except OSError:
            _close((stream, leash))
            return
        finally:
            _close((agents_end, nurserys_end))
        if self._ends.setdefault(_key(claim), (stream, leash))[0] is not stream:
            _close((stream, leash))  # another thread was quicker
        while len(self._ends) > self._most:
            oldest = next(iter(self._ends), b"")
            _close(self._ends.pop(oldest, ()))

    def close(self) -> None:
        """Let go of all of them."""
        while self._ends:
            _close(self._ends.popitem()[1])


def _key(claim: dict[str, Any]) -> bytes:
    return marshal.dumps({**claim, "deadline": None})


def _close(ends: tuple[sockets.Socket, ...]) -> None:
    for end in ends:
        end.close()
