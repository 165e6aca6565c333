"""Collects the output of a cell for its result: both streams, in order, up to a limit."""

from __future__ import annotations

from codecs import getincrementaldecoder
from time import monotonic, time

from cloche.model.result import Log

MAX_LOGS = 50_000  # log entries that are kept separately
_PIECE_S, _PIECE = 0.05, 16 << 10  # output that comes this soon after the last piece joins its log entry, up to a size
_decoder = getincrementaldecoder("utf-8")


class CellOutput:
    """Standard output and standard error of one cell."""

    def __init__(self, allowed: int, kept: int) -> None:
        self._allowed, self._keep = allowed, kept  # bytes that may still come, and bytes that may still be kept
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._decoders = {stream: _decoder("replace") for stream in self._kept}
        self._logs: list[Log] = []
        self._last = 0.0
        self.cut = False  # whether the result lacks something

    def allow(self, data: bytes) -> bytes:
        """Return the part of the data that the limit still allows."""
        if len(data) > self._allowed:
            data = data[: self._allowed]
            self.cut = True
        self._allowed -= len(data)
        return data

    def keep(self, stream: str, data: bytes) -> None:
        """Keep a piece for the result, if there is room."""
        if len(data) > self._keep:
            data = data[: self._keep]
            self.cut = True
        if not data:
            return
        self._keep -= len(data)
        self._kept[stream] += data
        text = self._decoders[stream].decode(data)
        now = monotonic()
        last = self._logs[-1] if self._logs else None
        if last is not None and last.stream == stream and now - self._last < _PIECE_S and len(last.text) < _PIECE:
            self._logs[-1] = last.replace(text=last.text + text)
        elif len(self._logs) < MAX_LOGS:
            self._logs.append(Log(stream, text, time()))
        else:
            self.cut = True
        self._last = now

    @property
    def size(self) -> int:
        """The number of bytes that were kept."""
        return sum(map(len, self._kept.values()))

    def in_both_forms(self) -> tuple[bytes, str, bytes, str]:
        """Return the part of each stream that was kept, as bytes and as text: standard output, then errors."""
        out, err = bytes(self._kept["stdout"]), bytes(self._kept["stderr"])
        return out, out.decode(errors="replace"), err, err.decode(errors="replace")

    def tail(self, stream: str, size: int) -> str:
        """Return the end of the part of a stream that was kept."""
        return bytes(self._kept[stream][-size:]).decode(errors="replace")

    def logs(self) -> tuple[Log, ...]:
        """Return both streams in order, once the cell is over."""
        for stream, decoder in self._decoders.items():
            if rest := decoder.decode(b"", True):  # an incomplete character at the end
                self._logs.append(Log(stream, rest, time()))
        return tuple(self._logs)
