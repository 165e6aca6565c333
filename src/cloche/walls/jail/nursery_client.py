"""The nurseries of this process: started when they are first needed, shared by all engines in it, ended with it."""

from __future__ import annotations

import marshal
import os
from _thread import allocate_lock

from cloche import environment
from cloche.errors import Misconfigured, SandboxFailed
from cloche.model.limits import Limits
from cloche.settings import Settings, load
from cloche.walls import sockets
from cloche.walls.jail import start
from cloche.walls.jail.standing_claims import Stock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Which libraries are worth having in a nursery, by measurement: docs/performance.md.
DATA_LIBRARIES = [
    *("numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_agg"),
    *("PIL.Image", "PIL.PngImagePlugin", "dateutil"),
]


_PATIENCE_S = 0.2  # for a nursery to end by itself when we do
_SIGTERM = 15


class Nursery:
    """A nursery process, seen from the engine: something that claims can be sent to."""

    def __init__(self, control: sockets.Socket, keeper: int, stock: Stock) -> None:
        self.control, self._keeper, self.stock = control, keeper, stock
        self._warm = False
        self._deaf = False  # it has closed its end
        self._failure = ""

    def is_warm(self) -> bool:
        """Has it imported all that it shall?"""
        self._listen()
        return self._warm

    def failure(self) -> str:
        """Why it could not start, or nothing."""
        self._listen()
        return self._failure

    def is_alive(self) -> bool:
        """Does it take claims?  Its keeper goes last, and may still be clearing up when it does not."""
        self._listen()
        if self._keeper == 0 or self._deaf:
            return False
        try:
            pid, _ = os.waitpid(self._keeper, os.WNOHANG)
        except ChildProcessError:
            pid = self._keeper
        if pid:
            self._keeper = 0
        return pid == 0

    def close(self) -> None:
        """Let it go: it ends its sandboxes and itself."""
        self.stock.close()
        self.control.close()
        if not self._keeper:
            return
        if not self._ended_within(_PATIENCE_S):  # it imports something, or is stuck: the keeper can end it all the same
            os.kill(self._keeper, _SIGTERM)
        try:
            os.waitpid(self._keeper, 0)
        except ChildProcessError:
            pass
        self._keeper = 0

    def _ended_within(self, seconds: float) -> bool:
        from select import POLLIN, poll

        try:
            process = os.pidfd_open(self._keeper)
        except OSError:
            return not self.is_alive()
        waiting = poll()
        waiting.register(process, POLLIN)
        try:
            return bool(waiting.poll(seconds * 1000))
        finally:
            os.close(process)

    def forget(self) -> None:
        """In a forked process: this is the parent's."""
        self.stock.close()
        self.control.close()
        self._keeper = 0

    def _listen(self) -> None:
        while True:
            try:
                message = self.control.recv(64 << 10, sockets.DONTWAIT)
            except ConnectionResetError:
                continue  # told once, when it went without reading a claim; what it had to say comes after
            except OSError:
                return
            if not message:
                self._deaf = True
                return
            told: dict[str, Any] = marshal.loads(message)
            self._warm = self._warm or "warm" in told
            self._failure = told.get("failed", self._failure)


# What a nursery is for, and what it imports ahead.  A shell for sessions makes every fork dearer, so a program that
# wants pandas alone comes from a nursery that has none.
PLAIN, DATA, SESSIONS, ONE_RUN = "plain", "data", "sessions", "one run"
_PRELOAD: dict[str, str | list[str]] = {
    PLAIN: "common",
    DATA: DATA_LIBRARIES,
    SESSIONS: DATA_LIBRARIES,
    ONE_RUN: [],
}


def configuration(
    settings: Settings, kind: str, without: frozenset[str], visible: Callable[[], dict[str, Any]] = dict
) -> dict[str, Any]:
    """All that a launcher and its nursery need to know; `visible` says what is shown of the host beside /usr."""
    places = start.places(settings)
    if not environment.is_built(places["environment"]):
        raise Misconfigured(
            f"The sandboxes' Python environment is missing ({places['environment']}).",
            hint="Build it with `make install` in the clone, or with `python -m cloche.environment`.",
        )
    return {
        **places,
        **visible(),
        "preload": _PRELOAD[kind],
        "rehearse": kind in (DATA, SESSIONS),
        "kernels": kind == SESSIONS or (kind == PLAIN and not settings.warm),
        "warm_kernel": kind == SESSIONS,
        "pool": settings.pool,
        "without": sorted(without),
        "defaults": request(Limits(), ()),
    }


def request(limits: Limits, mounts: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """The part of a claim that a nursery builds a sandbox from."""
    return {
        "memory": limits.memory_bytes,
        "cpu": limits.cpu,
        "disk": limits.disk_bytes,
        "processes": limits.processes,
        "mounts": list(mounts),
    }


class Nurseries:
    """A plain nursery for everything, and one each for data and for sessions once they are asked for."""

    def __init__(
        self,
        settings: Settings,
        without: frozenset[str] = frozenset(),
        visible: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._settings, self._without, self.visible = settings, without, visible
        self._lock = allocate_lock()
        self._by_kind: dict[str, Nursery] = {}

    def adopt(self, control: sockets.Socket, keeper: int) -> None:
        """Take over a plain nursery that was started before us, for a single run."""
        configuration(self._settings, ONE_RUN, self._without)  # tells what is wrong, if anything
        with self._lock:
            self._by_kind[PLAIN] = Nursery(control, keeper, Stock(control, 0))

    def choose(self, imports: frozenset[str] | None) -> Nursery:
        """The nursery for a program that imports these (None: for a session, which may import anything)."""
        with self._lock:
            if self._settings.warm and imports is None:
                return self._living(SESSIONS)
            if self._settings.warm and imports and self._living(DATA).is_warm():
                return self._living(DATA)
            return self._living(PLAIN)

    def warm_up(self) -> None:
        """Start all, and wait until they are warm."""
        from select import POLLIN, poll

        with self._lock:
            for nursery in [self._living(kind) for kind in (PLAIN, DATA, SESSIONS)]:
                while not nursery.is_warm() and nursery.is_alive():
                    waiting = poll()
                    waiting.register(nursery.control, POLLIN)
                    waiting.poll(1000)
                if nursery.failure():
                    raise SandboxFailed(f"No nursery could be started: {nursery.failure()}", hint=doctor_hint())

    def close(self) -> None:
        """End all, and every sandbox in them."""
        with self._lock:
            for nursery in self._by_kind.values():
                nursery.close()
            self._by_kind.clear()

    def forget(self) -> None:
        """In a forked process: what the parent has started is the parent's."""
        self._lock = allocate_lock()
        for nursery in self._by_kind.values():
            nursery.forget()
        self._by_kind.clear()

    def _living(self, kind: str) -> Nursery:
        nursery = self._by_kind.get(kind)
        if nursery is not None:
            if nursery.is_alive():
                return nursery
            failure = nursery.failure()
            nursery.close()
            if failure:
                raise SandboxFailed(f"No sandbox can be started here: {failure}.", hint=doctor_hint())
        how = configuration(self._settings, ONE_RUN if self._settings.one_run else kind, self._without, self.visible)
        control, keeper = start.by_exec(how, self._settings.debug)
        stock = Stock(control) if self._settings.pool else Stock(control, 0)
        self._by_kind[kind] = Nursery(control, keeper, stock)
        return self._by_kind[kind]


def doctor_hint() -> str:
    """Where to look when the jail cannot be built."""
    return "Run `cloche doctor` to see what this host lacks."


shared: Nurseries | None = None
_shared_lock = allocate_lock()


def of_this_process(known: Settings | None = None, visible: Callable[[], dict[str, Any]] = dict) -> Nurseries:
    """The nurseries that all engines of this process share, made by these settings; `visible`: see `configuration`."""
    global shared
    with _shared_lock:
        if shared is None:
            import atexit

            shared = Nurseries(known or load())
            os.register_at_fork(after_in_child=shared.forget)
            atexit.register(shared.close)
        shared.visible = visible
        return shared
