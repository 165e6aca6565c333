"""The nurseries of this process: started when first needed, shared by all its engines, ended with it."""

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
from cloche.walls.jail.claim import RETIRE, order_data
from cloche.walls.jail.standing_claims import StandingClaims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cloche.model.environments import EnvironmentMount

# The libraries that are worth having in a nursery, by measurement: docs/performance.md.
DATA_LIBRARIES = [
    *("numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_agg"),
    *("PIL.Image", "PIL.PngImagePlugin", "dateutil"),
]
# Libraries on top of these that take half a second or more to import.  They double the time of a fork, so only programs
# that import one of them come from a nursery that has them.
SCIENCE_LIBRARIES = [
    *("scipy.linalg", "scipy.sparse.linalg", "scipy.special", "scipy.spatial", "scipy.ndimage", "scipy.optimize"),
    *("scipy.interpolate", "scipy.stats", "scipy.signal", "joblib", "sklearn", "sklearn.metrics"),
    *("sklearn.linear_model", "sklearn.ensemble", "sklearn.model_selection", "sklearn.preprocessing"),
    *("sklearn.pipeline", "sklearn.cluster", "seaborn", "statsmodels.tsa.api", "statsmodels.api"),
    "statsmodels.formula.api",
]
# These are imported by nobody ahead of time, and import SciPy or scikit-learn themselves: from the science nursery
# `import xgboost` takes 45 ms instead of 1,700.  Numba is not among them, since it wants only a small part of SciPy.
_ON_SCIENCE = ("nltk", "skimage", "textblob", "xgboost")
_SCIENCE = frozenset((*(name.partition(".")[0] for name in SCIENCE_LIBRARIES), *_ON_SCIENCE))

_PATIENCE_S = 0.2  # for a nursery to end by itself when this process does
_SIGTERM = 15


class NurseryClient:
    """A nursery process as the engine sees it: it takes claims, and is the warden of their sandboxes."""

    hint = "Run `cloche doctor` to see what this host lacks."

    def __init__(self, control: sockets.Socket, keeper: int, standing: StandingClaims) -> None:
        self.control, self._keeper, self.standing = control, keeper, standing
        self._warm = False
        self._closed = False  # at its end of the control socket
        self._failure = ""

    def is_warm(self) -> bool:
        """Has it imported all its libraries?"""
        self._listen()
        return self._warm

    def failure(self) -> str:
        """Why it could not start; empty when it could."""
        self._listen()
        return self._failure

    def is_alive(self) -> bool:
        """Does it take claims?  Its keeper ends last, and may still be cleaning up when the nursery takes no more."""
        self._listen()
        if self._keeper == 0 or self._closed:
            return False
        try:
            pid, _ = os.waitpid(self._keeper, os.WNOHANG)
        except ChildProcessError:
            pid = self._keeper
        if pid:
            self._keeper = 0
        return pid == 0

    def close(self) -> None:
        """End it, with all its sandboxes."""
        self.standing.close()
        self.control.close()
        if not self._keeper:
            return
        if not self._ended_within(_PATIENCE_S):  # it is importing, or stuck: the keeper can end it all the same
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

    def retire(self) -> bool:
        """Have it end once its last sandbox has ended; it takes no more claims."""
        try:
            self.control.send(RETIRE, sockets.DONTWAIT)
            return True
        except OSError:
            return False

    def forget(self) -> None:
        """In a forked process: leave it to the parent."""
        self.standing.close()
        self.control.close()
        self._keeper = 0

    def _listen(self) -> None:
        while True:
            try:
                message = self.control.recv(64 << 10, sockets.DONTWAIT)
            except ConnectionResetError:
                continue  # raised once, when it ended with a claim unread; its last messages come next
            except OSError:
                return
            if not message:
                self._closed = True
                return
            news: dict[str, Any] = marshal.loads(message)
            self._warm = self._warm or "warm" in news
            self._failure = news.get("failed", self._failure)


# The kinds of nurseries, and the libraries that each imports.  A shell for sessions makes every fork more expensive, so
# a program that only wants pandas comes from a nursery without one.
PLAIN, DATA, SCIENCE, SESSIONS, ONE_RUN = "plain", "data", "science", "sessions", "one run"
ENVIRONMENT = "environment"  # and its digest
_PRELOAD: dict[str, str | list[str]] = {
    PLAIN: "common",
    DATA: DATA_LIBRARIES,
    SCIENCE: [*DATA_LIBRARIES, *SCIENCE_LIBRARIES],
    SESSIONS: DATA_LIBRARIES,
    ONE_RUN: [],
}


def configuration(
    settings: Settings,
    kind: str,
    without: frozenset[str],
    visible: Callable[[], dict[str, Any]] = dict,
    environment_mount: EnvironmentMount | None = None,
) -> dict[str, Any]:
    """The configuration of a launcher and its nursery; `visible` returns the host's folders that sandboxes see."""
    places = start.places(settings)
    if not environment.is_built(places["environment"]):
        from cloche.environment.absence import explain

        missing = Misconfigured(*explain(places["environment"]))
        missing.details = f"It belongs in {places['environment']}."
        raise missing
    prepared: dict[str, Any] = {}
    if environment_mount is not None:
        prepared = {
            "layers": [folder for folder, _ in environment_mount.layers],
            "prepare": {"archive": environment_mount.archive, "imports": list(environment_mount.imports)},
            "idle_s": float(settings.environments_idle),
        }
        kind = ONE_RUN if kind == ONE_RUN else SESSIONS
    return {
        **places,
        **visible(),
        **prepared,
        "preload": _PRELOAD[kind],
        "preload_later": SCIENCE_LIBRARIES if kind == SESSIONS else [],
        "rehearse": kind in (DATA, SCIENCE, SESSIONS),
        "kernels": kind == SESSIONS or (kind == PLAIN and not settings.warm) or environment_mount is not None,
        "warm_kernel": kind == SESSIONS,
        "pool": settings.pool,
        "without": sorted(without),
        "usual_order": order_data(Limits()),
    }


class Nurseries:
    """A plain nursery for everything, and one each for data, science and sessions once an order needs them."""

    def __init__(
        self,
        settings: Settings,
        without: frozenset[str] = frozenset(),
        visible: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._settings, self._without, self.visible = settings, without, visible
        self._lock = allocate_lock()
        self._by_kind: dict[str, NurseryClient] = {}
        self._retired: list[NurseryClient] = []  # they end with their last sandboxes

    def adopt(self, control: sockets.Socket, keeper: int) -> None:
        """Take over a plain nursery that was started before us, for a single run."""
        configuration(self._settings, ONE_RUN, self._without)  # raises what is wrong, if anything
        with self._lock:
            self._by_kind[PLAIN] = NurseryClient(control, keeper, StandingClaims(control, 0))

    def choose(self, imports: frozenset[str] | None, environment: EnvironmentMount | None = None) -> NurseryClient:
        """The nursery for a program with these imports; None is a session, which may import anything.

        Sandboxes of an environment come from a nursery of that environment.
        """
        with self._lock:
            if environment is not None:
                return self._of_environment(environment)
            if self._settings.warm and imports is None:
                return self._living(SESSIONS)
            kinds = [SCIENCE, DATA] if imports and imports & _SCIENCE else [DATA] if imports else []
            for kind in kinds if self._settings.warm else ():
                if self._living(kind).is_warm():
                    return self._living(kind)
            return self._living(PLAIN)

    def warm_up(self) -> None:
        """Start all nurseries, and wait until they are warm."""
        from select import POLLIN, poll

        with self._lock:
            for nursery in [self._living(kind) for kind in (PLAIN, DATA, SESSIONS)]:
                while not nursery.is_warm() and nursery.is_alive():
                    waiting = poll()
                    waiting.register(nursery.control, POLLIN)
                    waiting.poll(1000)
                if nursery.failure():
                    raise SandboxFailed(f"No sandbox can be started here: {nursery.failure()}.", hint=nursery.hint)

    def close(self) -> None:
        """End all nurseries, and every sandbox in them."""
        with self._lock:
            for nursery in (*self._by_kind.values(), *self._retired):
                nursery.close()
            self._by_kind.clear()
            self._retired.clear()

    def forget(self) -> None:
        """In a forked process: leave the parent's nurseries to the parent."""
        self._lock = allocate_lock()
        for nursery in (*self._by_kind.values(), *self._retired):
            nursery.forget()
        self._by_kind.clear()
        self._retired.clear()

    def _of_environment(self, environment: EnvironmentMount) -> NurseryClient:
        # Layers that were made again are other folders than those that an earlier nursery shows.
        kind = f"{ENVIRONMENT} {environment.digest} {environment.layers}"
        known = self._by_kind.pop(kind, None)
        if known is not None:
            self._by_kind[kind] = known  # the most recently used one is the last
        else:
            others = [each for each in self._by_kind if each.startswith(ENVIRONMENT)]
            for other in others[: max(0, len(others) + 1 - self._settings.environments)]:
                if self._by_kind[other].retire():
                    self._retired.append(self._by_kind.pop(other))
        for each in [retired for retired in self._retired if not retired.is_alive()]:
            each.close()
            self._retired.remove(each)
        return self._living(kind, environment)

    def _living(self, kind: str, environment: EnvironmentMount | None = None) -> NurseryClient:
        nursery = self._by_kind.get(kind)
        if nursery is not None:
            if nursery.is_alive():
                return nursery
            failure = nursery.failure()
            nursery.close()
            if failure:
                raise SandboxFailed(f"No sandbox can be started here: {failure}.", hint=nursery.hint)
        how = configuration(
            self._settings, ONE_RUN if self._settings.one_run else kind, self._without, self.visible, environment
        )
        control, keeper = start.by_exec(how, self._settings.debug)
        standing = (
            StandingClaims(control) if self._settings.pool and environment is None else StandingClaims(control, 0)
        )
        self._by_kind[kind] = NurseryClient(control, keeper, standing)
        return self._by_kind[kind]


shared: Nurseries | None = None
_shared_lock = allocate_lock()


def of_this_process(known: Settings | None = None, visible: Callable[[], dict[str, Any]] = dict) -> Nurseries:
    """The nurseries that all engines of this process share; `visible`: see `configuration`."""
    global shared
    with _shared_lock:
        if shared is None:
            import atexit

            shared = Nurseries(known or load())
            os.register_at_fork(after_in_child=shared.forget)
            atexit.register(shared.close)
        shared.visible = visible
        return shared
