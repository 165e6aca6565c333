"""The jail as the engine sees it: claims sent to a nursery, and a leash for each sandbox that comes of one."""

from __future__ import annotations

import errno
import marshal
import os
from time import monotonic

from cloche.errors import InvalidRun, Refused, SandboxFailed
from cloche.io.streams import AsyncStream, writable
from cloche.io.tasks import AsyncLock
from cloche.model.files import Mount
from cloche.model.limits import Limits
from cloche.model.order import Order, Spent
from cloche.walls import sockets
from cloche.walls.jail.nursery_client import Nurseries, doctor_hint, request
from cloche.walls.jail.standing_claims import connections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Keeper(Protocol):
        """Who has the other end of a leash: a nursery."""

        def failure(self) -> str:
            """Why it could not start, or nothing."""


_ANSWER_S = 20.0  # a nursery that says nothing for so long is broken
_USUAL = request(Limits(), ())
_NEVER_GIVEN = ("/", "/proc", "/sys", "/dev", "/run", "/boot", "/etc", "/var/run")


class AsyncJail:
    """Sandboxes made of namespaces, forked from a warm nursery."""

    name = "jail"

    def __init__(self, nurseries: Nurseries) -> None:
        self._nurseries = nurseries

    async def hold(self, order: Order, first: bytes = b"") -> AsyncJailed:
        """Claim a sandbox: it is ready, or being made, when this returns; what is sent to it waits for it."""
        mounts = tuple(give(mount) for mount in order.mounts)
        ahead = None if order.ahead is None else {**order.ahead.as_dict(), "env": dict(order.ahead.env)}
        wanted = request(order.limits, mounts)
        usual = order.imports is not None and wanted == _USUAL
        claim = {**wanted, "deadline": order.lifetime_s, "ahead": ahead}
        reason = ""
        for _ in range(2):  # a nursery that was killed is replaced, once
            try:
                nursery = self._nurseries.choose(order.imports)
                ends = nursery.stock.take(claim, first) if usual else None
                stream, leash = ends or await _claim(nursery.control, claim, first)
            except BrokenPipeError as problem:
                reason = nursery.failure() or f"the nursery does not answer ({problem.strerror})"
                continue
            except OSError as problem:
                raise SandboxFailed(f"No sandbox can be started: {problem.strerror}.", _remedy(problem)) from problem
            if usual:
                nursery.stock.renew(claim)
            return AsyncJailed(nursery, stream, leash)
        raise SandboxFailed(f"No sandbox can be started here: {reason}.", hint=doctor_hint())


async def _claim(control: sockets.Socket, claim: dict[str, Any], first: bytes) -> tuple[sockets.Socket, sockets.Socket]:
    """Ask the nursery for a sandbox; our ends of its stream and its leash."""
    message = marshal.dumps(claim)
    if len(message) > sockets.MAX_CLAIM:
        raise InvalidRun(f"{len(claim['mounts'])} mounts are too many.", hint="Mount a folder that has them all.")
    stream, agents_end, leash, nurserys_end = connections(first)
    try:
        await _send(control, message, (agents_end.fileno(), nurserys_end.fileno()))
        return stream, leash
    except BaseException:
        stream.close()
        leash.close()
        raise
    finally:
        agents_end.close()
        nurserys_end.close()


async def _send(control: sockets.Socket, message: bytes, descriptors: tuple[int, ...]) -> None:
    while True:
        try:
            return sockets.send(control, message, descriptors, sockets.DONTWAIT)
        except BlockingIOError:
            await writable(control.fileno())  # many ask at once


def _remedy(problem: OSError) -> str:
    if problem.errno in (errno.EMFILE, errno.ENFILE):
        return "Close sandboxes and files that are no longer needed, or allow more open files: ulimit -n."
    return doctor_hint()


class AsyncJailed:
    """A sandbox in a nursery, held by its leash."""

    def __init__(self, nursery: Keeper, stream: sockets.Socket, leash: sockets.Socket) -> None:
        self.stream = AsyncStream(stream)
        self._nursery = nursery
        self._leash = AsyncStream(leash)
        self._asking = AsyncLock()
        self._owner = os.getpid()
        self._spent: Spent | None = None  # known when it has ended
        self._gone = False
        self._untold: SandboxFailed | None = None  # heard by somebody who does not raise it

    async def usage(self) -> Spent:
        """What it has used so far."""
        async with self._asking:
            self._tell_failure()
            if self._spent is None:
                await self._ask({"usage": True}, "usage")
            return self._spent or self._last

    async def set_lifetime(self, seconds: float | None) -> None:
        """End it by itself after so long."""
        async with self._asking:
            if self._spent is None:
                await self._tell({"deadline": seconds})

    async def pause(self) -> None:
        """Stop all that is in it."""
        async with self._asking:
            if self._spent is None:
                self._stopped = False
                await self._ask({"pause": True}, "paused")
                if not self._stopped and self._spent is None:
                    raise Refused(
                        "Sandboxes cannot be paused here: there are no control groups.", hint="See `cloche doctor`."
                    )

    async def resume(self) -> None:
        """Have it go on."""
        async with self._asking:
            if self._spent is None:
                await self._ask({"pause": False}, "paused")

    async def ended(self) -> str:
        """Wait until it has ended; why."""
        while self._spent is None:
            await self._leash.readable()  # without reading: whoever asks something meanwhile reads the answer
            async with self._asking:
                if self._spent is None and self._leash.has_something():
                    try:
                        await self._hear(monotonic() + _ANSWER_S)
                    except SandboxFailed as problem:
                        self._untold = problem
        return self._spent.reason or "lost"

    async def end(self) -> Spent:
        """Kill it, and tell what it used."""
        async with self._asking:
            self._tell_failure()
            if self._spent is None:
                await self._ask({"end": True}, "ended")
            self.stream.shut()
            return self._spent or Spent(reason="lost")

    async def gone(self) -> None:
        """Wait until its last process is reaped."""
        async with self._asking:
            while not self._gone:
                await self._hear(monotonic() + _ANSWER_S)
            self._leash.close()

    def abandon(self) -> None:
        """Let go of the leash: the nursery does the rest."""
        if os.getpid() == self._owner:
            self._leash.shut()  # a process that was forked from us holds it, too, and knows nothing of it
        self._leash.close()
        self.stream.close()

    _last = Spent()
    _stopped = False

    async def _ask(self, message: dict[str, Any], answer: str) -> None:
        await self._tell(message)
        deadline = monotonic() + _ANSWER_S
        while self._spent is None:
            if await self._hear(deadline) == answer:
                return

    def _tell_failure(self) -> None:
        problem, self._untold = self._untold, None
        if problem is not None:
            raise problem

    async def _tell(self, message: dict[str, Any]) -> None:
        try:
            await self._leash.send(marshal.dumps(message))
        except OSError:
            pass  # the nursery has let go: what it had to say is there to be read

    async def _hear(self, deadline: float) -> str:
        """One message from the nursery, noted; its name."""
        try:
            message = await self._leash.receive(64 << 10, deadline - monotonic())
        except TimeoutError:
            message = b""
        except ConnectionResetError:
            return ""  # told once, when it let go without reading all of ours; what it had to say comes after
        except OSError:
            message = b""
        if not message:
            self._gone = True
            if self._spent is None:
                self._spent = Spent(reason="lost")
                if self._nursery.failure():
                    raise SandboxFailed(f"No sandbox can be started here: {self._nursery.failure()}.", doctor_hint())
            return "gone"
        told: dict[str, Any] = marshal.loads(message)
        name = next(iter(told))
        if name == "failed":
            self._spent, self._gone = Spent(reason="failed"), True
            raise SandboxFailed(f"The sandbox could not be built: {told['failed']}.", told.get("hint") or doctor_hint())
        if name == "usage":
            self._last = _spent(told["usage"])
        elif name == "ended":
            self._spent = _spent(told["ended"])
        elif name == "paused":
            self._stopped = bool(told["paused"])
        elif name == "gone":
            self._gone = True
        return name


def _spent(told: dict[str, Any]) -> Spent:
    return Spent(
        memory=told.get("memory"),
        memory_peak=told.get("memory_peak"),
        cpu_time=told.get("cpu_s"),
        processes=told.get("processes"),
        oom_kills=told.get("oom_kills") or 0,
        processes_refused=told.get("processes_refused") or 0,
        reason=told.get("reason", ""),
    )


def give(mount: Mount) -> dict[str, Any]:
    """A mount as the nursery takes it, after a look at whether it is the caller's to give."""
    source = os.path.realpath(mount.source)
    if not os.path.exists(source):
        raise InvalidRun(f"There is no {mount.source} on this host to mount.")
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
        "target": mount.target,
        "writable": mount.writable,
    }
