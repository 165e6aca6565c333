"""Parses what arrives on a connection in turns, so that no client makes the others wait.

The event loop hands over up to 256 KB at a time, again and again while there is more, which may be forty thousand
frames or requests.  After some milliseconds, the rest waits until other connections had their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from uvicorn.protocols.http.flow_control import FlowControl

SLICE = 16 << 10  # bytes that are parsed before the time is looked at
TURN_S = 0.005


class Turns:
    """The bytes of one connection that were not parsed yet.

    `parse` takes some bytes, and `waits` returns whether the application has enough to do for now.
    """

    def __init__(self, transport: asyncio.Transport, parse: Callable[[bytes], None], waits: Callable[[], bool]) -> None:
        self._transport, self._parse, self._waits = transport, parse, waits
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Parse bytes that have arrived, now or after those that wait."""
        if self._rest:
            self._rest += data
        elif len(data) <= SLICE:
            self._parse(data)
        else:
            self._parse_some(data)

    def resume(self) -> None:
        """Go on reading: first the bytes that wait, then the connection."""
        if self._rest:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._transport.resume_reading()

    def _parse_some(self, data: bytes) -> None:
        begin, start = monotonic(), 0
        while start < len(data) and not self._waits() and (not start or monotonic() - begin < TURN_S):
            self._parse(data[start : start + SLICE])
            start += SLICE
            if self._transport.is_closing():
                return
        if start < len(data):
            self._rest = data[start:]
            self._transport.pause_reading()
            if not self._waits():
                asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        data, self._rest = self._rest, b""
        if self._transport.is_closing():
            return
        self._parse_some(data)
        if not self._rest and not self._waits():
            self._transport.resume_reading()


class Flow(FlowControl):
    """Uvicorn's control of a connection, except that bytes which have arrived already come first."""

    def __init__(self, transport: asyncio.Transport, parse: Callable[[bytes], None]) -> None:
        super().__init__(transport)
        self.turns = Turns(transport, parse, lambda: self.read_paused)

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            self.turns.resume()
