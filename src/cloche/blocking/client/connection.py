# Generated from src/cloche/client/connection.py by scripts/blocking.py: edit that file instead.
"""One HTTP connection, for one request at a time; httptools reads the answers."""

from __future__ import annotations

import socket
from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from _socket import MSG_DONTWAIT, MSG_NOSIGNAL
from select import POLLIN, poll
from time import monotonic

from httptools import HttpParserError, HttpResponseParser

from cloche.blocking.client.tls import Tls
from cloche.blocking.io.streams import Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.sandbox.checks import Data

IDLE_S = 50.0  # after this time without use, a server or a proxy may close a connection just while we send
STALLED_S = 60.0  # a server that reads nothing for this long counts as lost
_PIECE = 128 << 10
_SMALL = 16 << 10  # bodies up to this size are sent together with the head of the request


# Sockets in use.  The objects that refer to them are part of cycles, and without this set the collector might reach a
# socket first, which would then warn that it was never closed.
_open: set[socket.socket] = set()


class Broken(Exception):
    """The connection broke; `began` says whether some of the answer had arrived."""

    def __init__(self, why: object, began: bool) -> None:
        super().__init__(str(why) or type(why).__name__)
        self.began = began


class ServerConnection:
    """A connection to a server."""

    def __init__(self, stream: Stream | Tls, sock: socket.socket) -> None:
        self._stream, self._socket = stream, sock
        self._answer: Answer | None = None  # the latest answer
        self._since = monotonic()  # when the connection was last used
        self._closed = self._receiving = False
        _open.add(sock)

    def ask(self, head: bytes, body: Data) -> Answer:
        """Send a request; return its answer, of which nothing has been read yet."""
        answer = self.begin()
        try:
            if len(body) <= _SMALL:
                self._stream.send(head + bytes(body), STALLED_S)
            else:
                self._stream.send(head, STALLED_S)
                whole = memoryview(body)
                for start in range(0, len(whole), _PIECE):
                    self._stream.send(bytes(whole[start : start + _PIECE]), STALLED_S)
        except OSError as problem:
            answer.despite(problem)
        return answer

    def begin(self) -> Answer:
        """Begin a request; return the answer to come."""
        self._answer = Answer(self)
        return self._answer

    def send(self, data: bytes) -> None:
        """Send a piece of a request."""
        self._stream.send(data, STALLED_S)

    def has_something(self) -> bool:
        """Return whether there are bytes to read."""
        waiting = poll()
        waiting.register(self._socket, POLLIN)
        return bool(waiting.poll(0))

    def post(self, request: bytes) -> bool:
        """Send a request from code that cannot await, if there is room for it; its answer is not read."""
        self._answer = Answer(self)
        self._since = monotonic()
        data = self._stream.sealed(request) if isinstance(self._stream, Tls) else request
        try:
            return self._socket.send(data, MSG_DONTWAIT | MSG_NOSIGNAL) == len(data)
        except OSError:
            return False

    def receive(self, timeout: float | None) -> bytes:
        """Wait for bytes; empty at the end."""
        if self.is_closed():
            return b""
        self._receiving = True
        try:
            return self._stream.receive(_PIECE, timeout)
        finally:
            self._receiving = False
            self._since = monotonic()
            if self.is_closed():
                self._close()

    def state(self) -> str:
        """Return whether the next request can use this connection: "ready", "answering" (not yet) or "over" (never)."""
        answer = self._answer
        if self._closed or monotonic() - self._since > IDLE_S:
            return "over"
        if answer is not None and not answer.is_complete():
            if not self.has_something():
                return "answering"
            try:
                answer.take_more()
            except (Broken, OSError):
                return "over"
            return self.state()
        if answer is not None and not answer.keeps_alive():
            return "over"
        return "over" if self.has_something() else "ready"  # bytes that no request asked for mean the end

    def is_free(self) -> bool:
        """Return whether the connection is ready, as far as is known without waiting."""
        return not self._closed and (self._answer is None or self._answer.keeps_alive()) and not self.has_something()

    def is_closed(self) -> bool:
        """Return whether this client has closed the connection."""
        return self._closed

    def close(self) -> None:
        """Wake the tasks that wait for the connection, then close it."""
        if not self._closed:
            self._closed = True
            if self._receiving:
                self._stream.shut()
            else:
                self._close()

    def _close(self) -> None:
        self._stream.close()
        _open.discard(self._socket)

    def __del__(self) -> None:
        self.close()


class Answer:
    """The answer to one request: its head, and its body as it arrives."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.status = 0
        self.headers: dict[str, str] = {}
        self._unsent = False  # the request could not be sent completely
        self._parser: Any = HttpResponseParser(self)
        self._pieces: deque[bytes] = deque()
        self._began = self._headed = self._complete = self._keeps_alive = False

    def head(self, timeout: float | None) -> None:
        """Wait for status and headers."""
        while not self._headed:
            self._feed(timeout)

    def despite(self, problem: OSError) -> None:
        """Wait for an answer after sending failed: a server that refuses a request answers, and then closes."""
        self._unsent = True
        try:
            self.head(0.5)
        except (Broken, OSError):
            raise Broken(problem, False) from problem

    def piece(self, timeout: float | None = None) -> bytes:
        """Wait for the next piece of the body; empty at the end.  TimeoutError when nothing comes."""
        while not self._pieces:
            if self._complete:
                return b""
            self._feed(timeout)
        piece: bytes = self._pieces.popleft()
        return piece

    def read(self, timeout: float | None = None) -> bytes:
        """Read the whole body."""
        parts = []
        while part := self.piece(timeout):
            parts.append(part)
        return b"".join(parts)

    def take_more(self) -> None:
        """Read and drop the part of the rest that has arrived."""
        self._feed(0)
        self._pieces.clear()

    def is_complete(self) -> bool:
        """Return whether the whole answer has arrived."""
        return self._complete

    def keeps_alive(self) -> bool:
        """Return whether the connection may be used again."""
        return self._complete and self._keeps_alive and not self._unsent

    def _feed(self, timeout: float | None) -> None:
        try:
            data = self.connection.receive(timeout)
        except TimeoutError:
            raise
        except OSError as problem:
            raise Broken(problem, self._began) from problem
        if not data:
            self._over()
            return
        self._began = True
        try:
            self._parser.feed_data(data)
        except HttpParserError as problem:
            raise Broken(f"the answer is no HTTP: {problem}", True) from problem
        if self._complete:
            self._parser = None  # parser and answer refer to each other

    def _over(self) -> None:
        bounded = "content-length" in self.headers or "transfer-encoding" in self.headers
        if not self._headed or bounded:
            raise Broken("the connection was closed", self._began)
        self._complete = True

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Note that all headers have arrived."""
        self.status = self._parser.get_status_code()
        self._keeps_alive = self._parser.should_keep_alive()  # the parser does not know this later
        self._headed = True

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Note that the answer is complete."""
        self._complete = True
