"""`!command`: runs it in a shell, and forwards its output in order with everything else that the cell shows."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen
    from typing import Any

GRACE = 1.0  # seconds that an interrupted command has to end
_AT_THE_END = 4000  # characters of standard error in which the signs below count
# Last words of package managers and others that wanted to download something.
_DOWNLOADS = (
    "No matching distribution found for",
    "this-sandbox-has-no-network",
    "Temporary failure in name resolution",
    "Could not resolve host",
    "GOPROXY=off",
)
_NO_NETWORK = (
    "The sandbox has no network access, so nothing can be downloaded: use a library that is installed, "
    "or upload a file and install that."
)


def run(command: str) -> int:
    """Run a command to its end; returns its exit code, negative for a signal."""
    import subprocess

    if command.rstrip().endswith("&"):  # a background command stays, and writes to the descriptors directly
        return subprocess.run(command, shell=True, executable=_shell()).returncode
    process = subprocess.Popen(command, shell=True, executable=_shell(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        end = _forward_output(process)
        code = process.wait()
        # The failure of a command is no error of its cell, and so has no hint.
        if code and os.environ.get("CLOCHE_NETWORK") == "none" and any(sign in end for sign in _DOWNLOADS):
            print(_NO_NETWORK, file=sys.stderr)
        return code
    except BaseException:
        _end(process)
        raise
    finally:
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def _shell() -> str | None:
    return os.environ.get("SHELL") or None


def _forward_output(process: Popen[bytes]) -> str:
    """Forward the output until the command has ended; returns the end of standard error.

    Processes that the command left running are not waited for.
    """
    import select
    from codecs import getincrementaldecoder

    assert process.stdout is not None
    assert process.stderr is not None
    decoder = getincrementaldecoder("utf-8")
    streams: dict[int, tuple[Any, Any]] = {
        process.stdout.fileno(): (sys.stdout, decoder("replace")),
        process.stderr.fileno(): (sys.stderr, decoder("replace")),
    }
    end, poll = "", select.poll()
    for fd in streams:
        os.set_blocking(fd, False)
        poll.register(fd, select.POLLIN)
    while streams:
        has_ended = process.poll() is not None
        ready = poll.poll(0 if has_ended else 50)
        for fd, _ in ready:
            stream, decode = streams[fd]
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                continue
            text = decode.decode(data, not data)
            stream.write(text)
            stream.flush()
            if stream is sys.stderr:
                end = (end + text)[-_AT_THE_END:]
            if not data:
                poll.unregister(fd)
                del streams[fd]
        if has_ended and not ready:
            break
    return end


def _end(process: Popen[bytes]) -> None:
    """End an interrupted command; the signal went to the whole group, so it may end by itself."""
    from subprocess import TimeoutExpired

    for how in (None, process.terminate, process.kill):
        if how is not None:
            how()
        try:
            process.wait(GRACE)
            return
        except TimeoutExpired:
            continue
