# Generated from src/cloche/walls/jail/wall.py by scripts/blocking.py: edit that file instead.
"""The jail as the engine sees it: orders become claims on a nursery, and each sandbox is held by a leash."""

from __future__ import annotations

import errno
import marshal
import os

from cloche.blocking.io.streams import writable
from cloche.blocking.walls.leash import LeashHold
from cloche.errors import InvalidRun, Refused, SandboxFailed
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.order import FirstCommand, Order
from cloche.walls import sockets
from cloche.walls.jail.claim import MAX_MOUNTS, order_data
from cloche.walls.jail.nursery_client import Nurseries, NurseryClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.claim import CommandData, MountData, OrderData

_USUAL = order_data(Limits())
_NEVER_GIVEN = ("/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var/run")


class Jail:
    """Sandboxes made of namespaces, forked from a warm nursery."""

    name = "jail"

    def __init__(self, nurseries: Nurseries) -> None:
        self._nurseries = nurseries

    def hold(self, order: Order, first: bytes = b"") -> LeashHold:
        """Claim a sandbox.  It may still be in the making when this returns; messages to it wait for it."""
        mounts = [give(mount) for mount in order.mounts]
        data = order_data(order.limits, mounts)
        is_usual = order.imports is not None and data == _USUAL and order.environment is None
        data["lifetime_s"] = order.lifetime_s
        data["first_command"] = _command_data(order.first_command)
        reason = ""
        for _ in range(2):  # a nursery that was killed is replaced, once
            try:
                nursery = self._nurseries.choose(order.imports, order.environment)
                ends = nursery.standing.use(data, first) if is_usual else None
                stream, leash = ends or _claim(nursery.control, data, mounts, first)
            except BrokenPipeError as problem:
                reason = nursery.failure() or f"the nursery does not answer ({problem.strerror})"
                continue
            except OSError as problem:
                raise SandboxFailed(f"No sandbox can be started: {problem.strerror}.", _remedy(problem)) from problem
            if is_usual:
                nursery.standing.renew(data)
            return LeashHold(nursery, stream, leash)
        raise SandboxFailed(f"No sandbox can be started here: {reason}.", hint=NurseryClient.hint)


def _command_data(command: FirstCommand | None) -> CommandData | None:
    if command is None:
        return None
    return {"argv": command.argv, "env": dict(command.env), "until": command.until}


def _claim(
    control: sockets.Socket, order: OrderData, mounts: list[MountData], first: bytes
) -> tuple[sockets.Socket, sockets.Socket]:
    """Send a claim to a nursery; returns the engine's ends of the sandbox's stream and leash."""
    message = marshal.dumps(order)  # type: ignore[arg-type]  # a TypedDict is a dictionary
    described = _described(mounts)
    stream, agents_end, leash, nurserys_end = sockets.stream_and_leash(first)
    try:
        _send(control, message, (agents_end.fileno(), nurserys_end.fileno(), *(end.fileno() for end in described)))
        return stream, leash
    except BaseException:
        stream.close()
        leash.close()
        raise
    finally:
        for end in (agents_end, nurserys_end, *described):
            end.close()


def _described(mounts: list[MountData]) -> list[sockets.Socket]:
    """The mounts as a message that waits in a socket, for the sandbox alone; nothing when there are none."""
    if not mounts:
        return []
    message = marshal.dumps(mounts)
    if len(message) > MAX_MOUNTS:
        raise InvalidRun(
            f"{len(mounts)} mounts are too many for one sandbox.", hint="Mount a folder that contains them."
        )
    ours, theirs = sockets.pair()
    try:
        sockets.send(ours, message)
    finally:
        ours.close()
    return [theirs]


def _send(control: sockets.Socket, message: bytes, descriptors: tuple[int, ...]) -> None:
    while True:
        try:
            return sockets.send(control, message, descriptors, sockets.DONTWAIT)
        except BlockingIOError:
            writable(control.fileno())  # many callers claim at once


def _remedy(problem: OSError) -> str:
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return "Close sandboxes and files that are no longer needed, or allow more open files: ulimit -n."
    return NurseryClient.hint


def give(mount: Mount) -> MountData:
    """A mount as plain data, after a check that the caller may give that folder to a sandbox.

    A source that a policy has resolved is not resolved again: a link that was put there since would lead elsewhere.
    """
    try:
        source = os.path.realpath(mount.source) if mount.identity is None else mount.source
        found = os.stat(source, follow_symlinks=False)
    except OSError:
        raise InvalidRun(f"There is no {mount.source} on this host to mount.") from None
    if source in _NEVER_GIVEN or source.startswith(("/proc/", "/sys/", "/dev/")):
        raise Refused(f"{mount.source} is never given to a sandbox.", hint="Mount a folder of your own.")
    wanted = os.R_OK | (os.X_OK if os.path.isdir(source) else 0) | (os.W_OK if mount.writable else 0)
    if not os.access(source, wanted):
        raise Refused(
            f"{mount.source} is not yours to give{' for writing' if mount.writable else ''}.",
            hint="Mount a folder that you may read (and write, for a writable mount) yourself.",
        )
    return {
        "source": source,
        "identity": mount.identity or (found.st_dev, found.st_ino),
        "target": mount.target,
        "writable": mount.writable,
    }
