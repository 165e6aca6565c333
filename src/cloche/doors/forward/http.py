"""Passes a request on to a server in a sandbox: both directions at once, piece by piece."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from starlette.types import Receive, Scope, Send

from cloche.doors.forward.address import ServerAddress
from cloche.doors.forward.headers import Headers, outward
from cloche.doors.http.problems import RequestRefused
from cloche.errors import ClocheError, Gone
from cloche.service.ports import MeteredConnection

ANSWER_S = 30.0  # for a server to begin its answer, once it has the request
MAX_HEAD = 64 << 10  # bytes of an answer's headers
_AT_ONCE = 50  # events of an answer that are read before others have their turn
_LAST_STATUS = 599
_WITHOUT_BODY = (204, 304)


class Exchange:
    """One request and its answer."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, connection: MeteredConnection, address: ServerAddress
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._connection, self._address = connection, address
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._events = 0
        self._begun = False

    async def carry_out(self, target: bytes, headers: Headers) -> None:
        """Pass the request on; a failure raises until the answer has begun, and cuts the answer off afterwards."""
        self._path = target.partition(b"?")[0].decode("latin-1")
        try:
            request = h11.Request(
                method=self._scope["method"].encode(), target=target, headers=[*headers, *self._framing()]
            )
            head = self._h11.send(request)
        except h11.LocalProtocolError:
            raise RequestRefused(
                400, "invalid", "The server in the sandbox cannot get this request: it is not valid HTTP."
            ) from None
        uploading = asyncio.create_task(self._upload(head or b""))
        answering = asyncio.create_task(self._answer())
        try:
            await asyncio.wait((uploading, answering, self._late), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            elif uploading.done():
                uploading.result()  # the client has left, or sent too much
            else:
                raise RequestRefused(
                    504,
                    "failed",
                    f"The server on port {self._address.port} in the sandbox has not answered within {ANSWER_S:.0f} s.",
                    "Look at the server's output to see what it is doing.",
                )
        except ClocheError:
            if not self._begun:
                raise
        finally:
            self._forget_alarm()
            self._late.cancel()
            for task in (uploading, answering):
                task.cancel()
            await asyncio.gather(uploading, answering, return_exceptions=True)

    def _framing(self) -> Headers:
        """The headers that delimit the body, as the client sent them."""
        given: Headers = self._scope["headers"]
        if any(name.lower() == b"transfer-encoding" for name, _ in given):
            return [(b"Transfer-Encoding", b"chunked"), (b"Connection", b"close")]
        lengths = [(b"Content-Length", value) for name, value in given if name.lower() == b"content-length"]
        return [*lengths[:1], (b"Connection", b"close")]

    # --- there

    async def _upload(self, head: bytes) -> None:
        """Send the request; returns when the client has left."""
        is_taken = await self._pass(head)
        is_more = True
        while True:
            self._forget_alarm()  # now we wait for the client, not for the server
            if not is_more:
                self._expect()
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
            if not is_more:
                continue
            self._expect()
            body = message.get("body", b"")
            is_more = message.get("more_body", False)
            if is_taken:
                is_taken = await self._pass_body(body, is_more)

    async def _pass_body(self, body: bytes, is_more: bool) -> bool:
        try:
            data = self._h11.send(h11.Data(data=body)) if body else b""
            if not is_more:
                data = (data or b"") + (self._h11.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError:
            return False  # its answer is complete or invalid, which the other task deals with
        return await self._pass(data or b"")

    async def _pass(self, data: bytes) -> bool:
        """Send to the server; returns whether it still takes data."""
        try:
            await self._connection.send(data)
        except Gone:
            return False  # it may have answered nevertheless
        return True

    def _expect(self) -> None:
        if not self._begun:
            self._forget_alarm()
            self._alarm = asyncio.get_running_loop().call_later(ANSWER_S, self._be_late)

    def _be_late(self) -> None:
        if not self._late.done():
            self._late.set_result(None)

    def _forget_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # --- and back

    async def _answer(self) -> None:
        response = await self._head()
        self._begun = True
        self._forget_alarm()
        status = response.status_code
        names = {name for name, _ in response.headers}
        has_length = status not in _WITHOUT_BODY and b"transfer-encoding" not in names
        headers = outward(response.headers.raw_items(), self._address, self._path, has_length)
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        try:
            while isinstance(event := await self._next(), h11.Data):
                await self._send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        except h11.RemoteProtocolError:
            return  # not what it promised: end without the last message, so that the client notices
        if isinstance(event, h11.EndOfMessage):
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _head(self) -> h11.Response:
        try:
            while isinstance(event := await self._next(), h11.InformationalResponse):
                pass
        except h11.RemoteProtocolError:
            event = None
        if not isinstance(event, h11.Response) or event.status_code > _LAST_STATUS:
            raise RequestRefused(
                502,
                "failed",
                f"The server on port {self._address.port} in the sandbox has answered with something that is not HTTP.",
                "Check that it is the right port, and look at the server's output.",
            )
        return event

    async def _next(self) -> Any:
        self._events += 1
        if not self._events % _AT_ONCE:
            await asyncio.sleep(0)  # a server may send a thousand events in one piece
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            try:
                data = await self._connection.receive()
            except Gone:
                data = b""  # the connection was cut
            self._h11.receive_data(data)
        return event
