"""Standard output and error of a Python kernel, in order with each other and with displays."""

from __future__ import annotations

import io
import os
import sys

from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.kernels.channel import Channel


class FrameWriter(io.RawIOBase):
    """The raw end of a stream; turns writes into frames."""

    def __init__(self, channel: Channel, kind: int, fd: int, name: str) -> None:
        super().__init__()
        self._channel: Channel | None = channel
        self._kind = kind
        self._fd = fd
        self.name = name
        self.mode = "wb"

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        """Send the data; in a process forked from the kernel, write it to the descriptor."""
        if self._channel is None:
            return os.write(self._fd, data)
        self._channel.write(self._kind, data)
        return len(data)

    def leave_channel(self) -> None:
        """Write to the descriptor from now on: this process was forked from the kernel."""
        self._channel = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Return the descriptor whose output ends up in the same place."""
        return self._fd

    def isatty(self) -> bool:
        return False

    def close(self) -> None:
        """Stay open: a cell that closes its output would silence all later ones."""


def install(channel: Channel) -> tuple[_StandardOutput, FrameWriter]:
    """Replace `sys.stdout` and `sys.stderr`."""
    # Printed text goes to the descriptor itself, in C: ten times as fast as frames.  Line buffering: nothing waits
    # while the code computes, and a kill loses nothing that was printed.
    descriptor = io.FileIO(1, "wb", closefd=False)
    descriptor.name = "<stdout>"
    out = _StandardOutput(io.BufferedWriter(descriptor, 64 << 10), "utf-8", "surrogateescape", line_buffering=True)
    out.mode, out.channel = "w", channel
    err = FrameWriter(channel, frames.STDERR, 2, "<stderr>")
    sys.stdout = sys.__stdout__ = out  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(err, "backslashreplace")  # type: ignore[misc]
    return out, err


def flush() -> None:
    """Send text that was printed without a line end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the cell's own object, or a closed one
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
    """Standard output; text that is printed after a frame waits until the agent has handled the frame."""

    channel: Channel | None

    def write(self, text: str) -> int:
        if self.channel is not None and self.channel.needs_sync:
            self.channel.sync()
        return super().write(text)

    def leave_channel(self) -> None:
        """Stop synchronising: this process was forked from the kernel."""
        self.channel = None
