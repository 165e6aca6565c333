"""Standard output and standard error of a Python kernel, in order with each other and with what is displayed."""

from __future__ import annotations

import io
import os
import sys

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.kernels.channel import Channel


class FrameWriter(io.RawIOBase):
    """The raw end of a stream: what is written becomes frames."""

    def __init__(self, channel: Channel, kind: int, fd: int, name: str) -> None:
        super().__init__()
        self._channel: Channel | None = channel
        self._kind = kind
        self._fd = fd
        self.name = name
        self.mode = "wb"

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Send it; in a process that was forked from the kernel, write to the descriptor."""
        if self._channel is None:
            return os.write(self._fd, data)
        self._channel.write(self._kind, data)
        return len(data)

    def leave_channel(self) -> None:
        """From now on this is another process, which writes to descriptors like any."""
        self._channel = None

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """The descriptor whose output ends up in the same place."""
        return self._fd

    def isatty(self) -> bool:
        """No."""
        return False

    def close(self) -> None:
        """Never: a cell that closes its output would silence all that follow."""


def install(channel: Channel) -> tuple[_StandardOutput, FrameWriter]:
    """Make them `sys.stdout` and `sys.stderr`."""
    # What is printed goes to the descriptor itself, in C: ten times as fast as frames.  Line by line: nothing printed
    # waits while the code computes, and what was printed before a kill is not lost.
    descriptor = io.FileIO(1, "wb", closefd=False)
    descriptor.name = "<stdout>"
    out = _StandardOutput(io.BufferedWriter(descriptor, 64 << 10), "utf-8", "surrogateescape", line_buffering=True)
    out.mode, out.channel = "w", channel
    err = FrameWriter(channel, frames.STDERR, 2, "<stderr>")
    sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(err, "backslashreplace")  # type: ignore[misc]
    return out, err


def flush() -> None:
    """Send what a cell has printed without an end of line."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a cell's own object, or closed
            pass


def _text(raw: FrameWriter, errors: str) -> io.TextIOWrapper:
    buffer: io.BufferedWriter = io.BufferedWriter(raw, 64 << 10)  # type: ignore[arg-type]
    text = _OpenText(buffer, "utf-8", errors, line_buffering=True)
    text.mode = "w"
    return text


class _OpenText(io.TextIOWrapper):
    mode: str

    def close(self) -> None:
        """Flush, and stay open (see `FrameWriter.close`)."""
        self.flush()


class _StandardOutput(_OpenText):
    """Standard output: what is printed after a frame waits until the agent has taken that."""

    channel: Channel | None

    def write(self, text: str) -> int:
        """Print it."""
        if self.channel is not None and self.channel.owes:
            self.channel.sync()
        return super().write(text)

    def leave_channel(self) -> None:
        """From now on this is another process, which nobody listens to by frames."""
        self.channel = None
