"""Agents that lie: a recorded conversation of a real agent is played back to the engine, with changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cloche.io.streams import AsyncStream
from cloche.model.order import Listener, Order, Spent
from cloche.wire import frames

Frame = tuple[int, int, bytes]  # operation, kind, payload
_QUIET_S = 0.03  # an engine that sends nothing for this long waits for a frame that the mutation removed


class RecordingWall:
    """A real wall that keeps the frames of the agent behind it."""

    name = "jail"

    def __init__(self, wall: Any) -> None:
        self._wall = wall
        self.received: list[Frame] = []

    async def hold(self, order: Order, first: bytes = b"") -> Any:
        """Make a real sandbox, and listen to its stream."""
        hold = await self._wall.hold(order, first)
        decoder, stream = frames.Decoder(frames.FROM_AGENT), hold.stream
        receive = stream.receive

        async def listen(size: int, timeout: float | None = None) -> bytes:
            data: bytes = await receive(size, timeout)
            self.received += decoder.feed(data)
            return data

        stream.receive = listen
        return hold


@dataclass
class PlayedHold:
    """The engine's hold on a sandbox whose agent is a recording."""

    stream: AsyncStream
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def usage(self) -> Spent:
        """Nothing was used."""
        return Spent()

    async def set_lifetime(self, seconds: float | None) -> None:
        """A recording has no lifetime."""

    async def listen(self, ports: Sequence[int]) -> list[Listener]:
        return []

    async def mount_layer(self, folder: str, identity: tuple[int, int], number: int) -> None:
        """A recording has no folders."""

    async def pause(self) -> None:
        """A recording cannot be paused."""

    async def resume(self) -> None:
        """A recording cannot be paused."""

    async def ended(self) -> str:
        """Wait for the end."""
        await self.over.wait()
        return "lost"

    async def end(self) -> Spent:
        """End the stream."""
        self.abandon()
        return Spent(reason="lost")

    async def gone(self) -> None:
        """Nothing is left, because nothing was there."""

    def abandon(self) -> None:
        """Close the engine's end."""
        self.over.set()
        self.stream.close()


class PlayingWall:
    """Makes sandboxes whose agent plays these bytes: each part as soon as the engine has begun its operation."""

    name = "jail"

    def __init__(self, parts: list[tuple[int, bytes]]) -> None:
        self._parts = parts
        self._player: asyncio.Task[None] | None = None

    async def hold(self, order: Order, first: bytes = b"") -> PlayedHold:
        """Connect the engine to the player."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        ours.send(first)
        self._player = asyncio.create_task(self._play(theirs))
        return PlayedHold(AsyncStream(ours))

    async def close(self) -> None:
        """Stop playing."""
        if self._player is not None:
            self._player.cancel()
            await asyncio.gather(self._player, return_exceptions=True)

    async def _play(self, stream: socket.socket) -> None:
        loop, begun, requests = asyncio.get_running_loop(), 0, frames.Decoder(frames.FROM_ENGINE)
        with stream:
            try:
                for operation, data in self._parts:
                    while begun < operation:
                        async with asyncio.timeout(_QUIET_S):
                            heard = await loop.sock_recv(stream, 1 << 16)
                        if not heard:
                            return
                        begun = max([begun, *(number for number, _, _ in requests.feed(heard))])
                    await loop.sock_sendall(stream, data)
            except (TimeoutError, OSError):
                pass  # the engine has left, or waits for something that will not come
