"""Claims that the engine sends ahead of time, so that the next sandbox is ready when it is wanted.

A claim goes through the nursery, which takes a while.  So when a sandbox is used, the engine claims the next one of its
kind at once, with a *standing* claim, which the nursery serves when it has nothing else to do.  The next caller then
sends its request to the sandbox's agent directly, and informs the nursery at the same time.
"""

from __future__ import annotations

import marshal
from time import monotonic

from cloche.walls import leash_messages, sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.claim import OrderData

    Ends = tuple[sockets.Socket, sockets.Socket]

_KINDS = 10  # most kinds of sandboxes that are claimed ahead; fewer where a nursery keeps fewer (pool.py)
_RUSH_S = 0.02  # after a shorter time than this between two claims, the nursery has more urgent things to do


class StandingClaims:
    """The standing claims on one nursery: the engine's ends of stream and leash, by the order's text."""

    def __init__(self, control: sockets.Socket, most: int = _KINDS) -> None:
        self._control, self._most = control, most  # 0: no claims are sent
        self._ends: dict[bytes, Ends] = {}
        self._last = 0.0

    def use(self, order: OrderData, first: bytes) -> Ends | None:
        """Return the sandbox of a standing claim on this order, after sending `first` to it; None if none is alive."""
        ends = self._ends.pop(_key(order), None)
        if ends is None:
            return None
        stream, leash = ends
        try:
            sockets.send(stream, first, flags=sockets.DONTWAIT)
            sockets.send(leash, leash_messages.encode(begin=order["lifetime_s"]), flags=sockets.DONTWAIT)
            return ends
        except OSError:
            _close(ends)
            return None

    def renew(self, order: OrderData) -> None:
        """Claim the next sandbox for an order of the same kind."""
        before, self._last = self._last, monotonic()
        if not self._most or self._last - before < _RUSH_S:
            return
        try:
            stream, agents_end, leash, nurserys_end = sockets.stream_and_leash()
        except OSError:
            return  # the next caller then sends its own claim
        try:
            message = marshal.dumps({**order, "lifetime_s": None, "standing": True})
            sockets.send(self._control, message, (agents_end.fileno(), nurserys_end.fileno()), sockets.DONTWAIT)
        except OSError:
            _close((stream, leash))
            return
        finally:
            _close((agents_end, nurserys_end))
        if self._ends.setdefault(_key(order), (stream, leash))[0] is not stream:
            _close((stream, leash))  # another thread was quicker
        while len(self._ends) > self._most:
            oldest = next(iter(self._ends), b"")
            _close(self._ends.pop(oldest, ()))

    def close(self) -> None:
        """Drop all standing claims."""
        while self._ends:
            _close(self._ends.popitem()[1])


def _key(order: OrderData) -> bytes:
    return marshal.dumps({**order, "lifetime_s": None})


def _close(ends: tuple[sockets.Socket, ...]) -> None:
    for end in ends:
        end.close()
