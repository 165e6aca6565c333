"""Mounts layers of packages into sandboxes that run already.

A process of its own does this: it has one thread and enters the mount namespace of the host and that of a sandbox in
turn, which the nursery itself must not do.  The nursery starts it for the first layer; it serves all sandboxes of the
nursery.  The nursery's memory is every sandbox's memory, so the nursery never sees the path of a layer: the engine
writes that into the socket that travels with the request, and only this process reads it.
"""

from __future__ import annotations

import errno
import marshal
import os
import stat

from cloche.walls import sockets
from cloche.walls.jail import linux
from cloche.wire.layers import SLOTS, slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.walls.jail.sandbox_process import SandboxProcess

_MAX_REQUEST = 16 << 10
_IS_ANOTHER = "the layer is not the one that was checked"


class LayerMounts:
    """The process that mounts layers, as the nursery sees it."""

    def __init__(self, disarm: Callable[[], None], host_mounts: int, host_proc: int, read_only: bool) -> None:
        self._disarm, self._host_mounts, self._host_proc = disarm, host_mounts, host_proc
        self._read_only = read_only  # false only in a test that shows what this protects from
        self._requests: sockets.Socket | None = None
        self._waiting: dict[int, list[int]] = {}  # by pid: replies to requests for sandboxes without a root yet

    def mount(self, sandbox: SandboxProcess, reply: int) -> None:
        """Have the layer mounted that the socket `reply` describes; the answer goes to the same socket."""
        if not sandbox.host_pid:
            self._waiting.setdefault(sandbox.pid, []).append(reply)
            return
        try:
            path = f"{sandbox.host_pid}/ns/mnt"
            namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._host_proc)
            try:
                self._send((namespace, reply))
            finally:
                os.close(namespace)
        except OSError:
            pass  # the sandbox has died: the engine sees the socket close
        finally:
            os.close(reply)

    def root_known(self, sandbox: SandboxProcess) -> None:
        """Serve the requests that came before the sandbox had its root."""
        for reply in self._waiting.pop(sandbox.pid, ()) if self._waiting else ():
            self.mount(sandbox, reply)

    def forget(self, sandbox: SandboxProcess) -> None:
        """Close the requests of a sandbox that has ended."""
        for reply in self._waiting.pop(sandbox.pid, ()) if self._waiting else ():
            os.close(reply)

    def _send(self, descriptors: tuple[int, int]) -> None:
        for _ in range(2):  # a process that was killed is replaced, once
            if self._requests is None:
                self._requests = self._start()
            try:
                return sockets.send(self._requests, b"M", descriptors, sockets.DONTWAIT)
            except OSError:
                self._requests.close()
                self._requests = None

    def _start(self) -> sockets.Socket:
        ours, theirs = sockets.pair()
        if os.fork() == 0:
            try:
                self._disarm()
                linux.prctl(linux.PR_SET_PDEATHSIG, 9)
                linux.close_all_but((0, 1, 2, theirs.fileno(), self._host_mounts))
                _serve(theirs, self._host_mounts, self._read_only)
            finally:
                os._exit(0)
        theirs.close()
        return ours


def _serve(requests: sockets.Socket, host_mounts: int, read_only: bool) -> None:
    while True:
        message, descriptors = sockets.receive(requests, 16, 2)
        if not message:
            return
        sandbox_mounts, reply = descriptors
        channel = sockets.adopt(reply)
        try:
            path, identity, number = marshal.loads(channel.recv(_MAX_REQUEST, sockets.DONTWAIT))
            layer = _open(path, identity, host_mounts, read_only)
            try:
                _attach(layer, number, sandbox_mounts)
            finally:
                os.close(layer)
            answer: dict[str, object] = {"mounted": True}
        except (OSError, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else str(problem)
            answer = {"failed": reason or "unknown"}
        try:
            sockets.send(channel, marshal.dumps(answer))
        except OSError:
            pass  # nobody waits for the answer any more
        finally:
            channel.close()
            os.close(sandbox_mounts)


def _open(path: str, identity: tuple[int, int], host_mounts: int, read_only: bool) -> int:
    """Return a mount of the layer that no place shows yet."""
    linux.setns(host_mounts, linux.NEWNS)
    layer = linux.open_real_tree(path)
    found = os.fstat(layer)
    if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) != tuple(identity):
        os.close(layer)
        raise OSError(errno.ESTALE, _IS_ANOTHER)
    attributes = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV | (linux.MOUNT_ATTR_RDONLY if read_only else 0)
    linux.mount_setattr(layer, attributes)  # before any program can see it
    return layer


def _attach(layer: int, number: int, sandbox_mounts: int) -> None:
    if not 0 <= number < SLOTS:
        raise ValueError("a sandbox has no such place for a layer")
    linux.setns(sandbox_mounts, linux.NEWNS)
    # The way to the place is all ours: /opt is a mount of the nursery's, which programs cannot move or replace.
    target = linux.open_real_path(slot(number))
    try:
        linux.move_mount_onto(layer, target)
    finally:
        os.close(target)
