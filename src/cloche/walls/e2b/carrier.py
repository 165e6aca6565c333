"""The thread that speaks with the service.  It has an event loop of its own, whatever the engine's callers use."""

from __future__ import annotations

import asyncio
import os
import threading

from cloche.errors import Refused
from cloche.walls import sockets
from cloche.walls.e2b.remote_sandbox import Account, RemoteSandboxWarden

_LEAVE_S = 10.0  # for sandboxes to be ended when this process ends


class Carrier:
    """The thread, and the wardens of the sandboxes that it looks after."""

    hint = "Try again, or use isolation='jail'."

    def __init__(self) -> None:
        self._wardens: dict[RemoteSandboxWarden, asyncio.Task[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="cloche-e2b", daemon=True)
        self._thread.start()

    def carry(self, account: Account, lifetime_s: float | None, stream: sockets.Socket, leash: sockets.Socket) -> None:
        """Make a sandbox, and look after it until its leash is closed."""
        self._loop.call_soon_threadsafe(self._begin, account, lifetime_s, stream, leash)

    def failure(self) -> str:
        """Empty: a thread can always start."""
        return ""

    def close(self) -> None:
        """End all sandboxes and wait for that, but not for ever: the end of their leases ends them, too."""
        leaving = asyncio.run_coroutine_threadsafe(self._leave(), self._loop)
        try:
            leaving.result(_LEAVE_S)
        except TimeoutError:
            pass
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LEAVE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _begin(self, account: Account, lifetime_s: float | None, stream: sockets.Socket, leash: sockets.Socket) -> None:
        warden = RemoteSandboxWarden(account, lifetime_s, stream, leash)
        self._wardens[warden] = task = self._loop.create_task(warden.live())
        task.add_done_callback(lambda _: self._wardens.pop(warden))

    async def _leave(self) -> None:
        tasks = list(self._wardens.values())
        for warden in list(self._wardens):
            warden.end("closed")
        await asyncio.gather(*tasks, return_exceptions=True)


_shared: Carrier | None = None
_is_fork = False
_lock = threading.Lock()


def of_this_process() -> Carrier:
    """The carrier that all engines of this process share."""
    global _shared
    if _is_fork:
        raise Refused(
            "E2B's client does not work in a process that was forked from one that has used it.",
            hint="Start new processes instead of forks: multiprocessing.get_context('spawn').",
        )
    with _lock:
        if _shared is None:
            import atexit

            _shared = Carrier()
            os.register_at_fork(after_in_child=_forget)
            atexit.register(close)
        return _shared


def close() -> None:
    """End the sandboxes that this process has on the service."""
    global _shared
    with _lock:
        carrier, _shared = _shared, None
    if carrier is not None:
        carrier.close()


def _forget() -> None:
    """In a forked process: the thread, the client's own threads and the sandboxes are the parent's."""
    global _shared, _is_fork
    _shared, _is_fork = None, True
