# Generated from src/cloche/engine/link.py by scripts/blocking.py: edit that file instead.
"""The connection to one agent: many operations share one stream, and nothing that the agent sends is trusted.

No background task reads the stream: a task that waits for a frame reads, and passes the frames of other operations to
the tasks that wait for them.  So a sandbox costs no task and no thread, and nothing is read before a task wants it.
"""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import
from time import monotonic

from cloche.blocking.io.streams import Stream
from cloche.blocking.io.tasks import Condition, Lock, pause
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Callable

MAX_WAITING = 2 * frames.WINDOW // frames.LEAST + 8  # most frames of one operation that no task has taken yet
MAX_WAITING_BYTES = frames.WINDOW + 2 * frames.MAX_PAYLOAD  # and their size: bulk data in transit, and an answer
_LITTLE, _MUCH = 32 << 10, 256 << 10  # bytes to receive at once; a larger buffer takes long to allocate
_AT_ONCE = 256 << 10  # bytes of one operation that are taken before other tasks get their turn
_LEAST = 4 << 10  # bytes that a small frame counts for
STALLED_S = 30.0  # an agent that reads nothing for this long counts as lost


# Exceptions that parsing raises when an answer is malformed.
NONSENSE = (frames.Garbled, AttributeError, KeyError, OverflowError, TypeError, ValueError)


class Lost(Exception):
    """The agent is gone, or violates the protocol."""


class Operation:
    """One request to the agent, and the frames that have arrived so far."""

    def __init__(self, number: int, window: int) -> None:
        self.number, self.window = number, window
        self.inbox: deque[tuple[int, bytes]] = deque()
        self.waiting = 0  # bytes in the inbox
        self.input_credit = frames.WINDOW  # bytes that we may send
        self.allowance = window  # bytes that the agent may send
        self.consumed = 0  # bytes taken from the inbox for which no new credit was granted yet
        self.over = False  # the last frame has arrived
        self.taken = 0  # bytes taken since other tasks had their turn


class Link:
    """Frames to and from one agent."""

    _stream: Stream

    def __init__(self) -> None:
        self._decoder = frames.Decoder(frames.FROM_AGENT)
        self._operations: dict[int, Operation] = {}
        self._last = 0
        self._turn = Condition()
        self._reading = False
        self._sending = Lock()
        self._broken = ""
        self.on_request: Callable[[bytes], None] | None = None  # called with each request that begins inside
        self._expected = _LITTLE  # size of the buffer for the next read

    def connect(self, stream: Stream) -> None:
        """Use this stream from now on; before that, only `open` can be called."""
        self._stream = stream

    def open(self, window: int = frames.WINDOW) -> Operation:
        """Return a new operation, which the caller must close; `window` bounds the bytes that wait for the caller."""
        self._last += 1
        operation = self._operations[self._last] = Operation(self._last, window)
        return operation

    def close(self, operation: Operation) -> None:
        """Forget an operation; frames that still come for it are dropped."""
        self._operations.pop(operation.number, None)

    def send(self, data: bytes) -> None:
        """Send frames, as they are."""
        with self._sending:
            self._transmit(data)

    def _transmit(self, data: bytes) -> None:
        if self._broken:
            raise Lost(self._broken)
        try:
            self._stream.send(data, STALLED_S)
        except TimeoutError:
            self._broken = "the agent takes nothing any more"
            raise Lost(self._broken) from None
        except OSError as problem:
            raise Lost("the agent is gone") from problem

    def post(self, data: bytes) -> None:
        """Send frames from code that cannot await, if there is room for them now."""
        if not self._broken:
            self._stream.post(data, self._sending)

    def receive(self, operation: Operation, deadline: float | None = None) -> tuple[int, bytes]:
        """Wait for the next frame of an operation; return its kind and payload.  TimeoutError when the deadline passes.

        Cancelling this call loses no frame, because nothing is awaited after a frame is taken.
        """
        if operation.consumed >= operation.window // 2:
            self._grant(operation)
        if operation.taken > _AT_ONCE:  # thousands of frames may be there, and taking them never waits
            operation.taken = 0
            pause(0)
        with self._turn:
            while not operation.inbox:
                self._wait(deadline)
            kind, payload = operation.inbox.popleft()
            operation.waiting -= len(payload)
            operation.taken += max(len(payload), _LEAST)
            if kind in frames.BULK or kind == frames.EVENT:
                operation.consumed += frames.cost(payload)
        return kind, payload

    def _grant(self, operation: Operation) -> None:
        """Grant the agent new credit for the bytes that were taken."""
        with self._sending:
            granted, operation.consumed = operation.consumed, 0
            operation.allowance += granted
            self._transmit(frames.credit(operation.number, granted))

    def await_credit(self, operation: Operation, deadline: float | None = None) -> int:
        """Wait until input may be sent or the operation is over; return the byte count.  Others can still receive."""
        if operation.input_credit <= 0:
            with self._turn:
                while operation.input_credit <= 0 and not operation.over:
                    self._wait(deadline)
        return operation.input_credit

    def _wait(self, deadline: float | None) -> None:
        """Wait for any frame, from the stream or from the task that reads it.  The caller must have the turn."""
        if self._broken:
            raise Lost(self._broken)
        timeout = None if deadline is None else max(deadline - monotonic(), 0)
        if self._reading:
            self._turn.wait_for_change(timeout)
        elif not self._read(timeout) and timeout == 0:  # only after a read: the frame may have arrived long ago
            raise TimeoutError

    def _read(self, timeout: float | None) -> bool:
        """Read once, with the turn released meanwhile, so that other tasks can wait; return whether data arrived."""
        self._reading = True
        self._turn.release()
        data = b""
        problem = ""
        try:
            data = self._stream.receive(self._expected, timeout)
            self._expected = _LITTLE if len(data) < self._expected else _MUCH
            problem = "" if data else "the agent is gone"
        except TimeoutError:
            pass
        except OSError:
            problem = "the agent is gone"
        finally:
            self._turn.acquire()
            self._reading = False
            self._turn.notify_all()
        self._broken = self._broken or problem
        try:
            for number, kind, payload in self._decoder.feed(data):
                self._dispatch(number, kind, payload)
        except frames.Garbled as garbled:
            self._broken = f"the agent sent nonsense: {garbled}"
        return bool(data or self._broken)

    def _dispatch(self, number: int, kind: int, payload: bytes) -> None:
        operation = self._operations.get(number)
        if operation is None:
            if number == frames.REQUESTS and kind == frames.EVENT and self.on_request is not None:
                self.on_request(payload)
            return
        if kind == frames.CREDIT:
            operation.input_credit += int.from_bytes(payload, "big")
            if operation.input_credit > frames.WINDOW:
                raise frames.Garbled("more credit than was ever used")
            if operation.inbox and operation.inbox[-1][0] == frames.CREDIT:
                return  # a task that waits for credit checks the sum
        elif kind in frames.BULK or kind == frames.EVENT:
            operation.allowance -= frames.cost(payload)
            if operation.allowance < 0:
                raise frames.Garbled("more data than was allowed")
        elif kind in frames.LAST:
            operation.over = True
        operation.waiting += len(payload)
        if len(operation.inbox) >= MAX_WAITING or operation.waiting > MAX_WAITING_BYTES:
            raise frames.Garbled("more than anybody asked for")
        operation.inbox.append((kind, payload))
