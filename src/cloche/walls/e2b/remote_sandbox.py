"""The warden of one sandbox on the service: makes it, starts an agent in it, passes frames on and ends it.

The engine holds the sandbox by a leash (walls/leash_messages.py).  The service is asked for a short time again and
again, a lease, so that the sandbox also ends when this process is gone.
"""

from __future__ import annotations

import asyncio
from _socket import SHUT_RDWR
from collections.abc import Callable
from math import ceil
from socket import socket
from typing import Any, NamedTuple

from cloche.walls import leash_messages, sockets
from cloche.walls.portable import text
from cloche.walls.portable.archive import archive
from cloche.walls.portable.entry import HOME, KERNELS

LEASE_S, RENEW_S = 120, 30.0
_KILL_S = 15.0  # for the service to answer; the engine waits a little longer (walls/leash.py)
_MEASURE_S = 5.0
_PLACE = "/tmp/.cloche/agent.pyz"
_TEMPLATE = "The template needs Python 3.11 or newer; CLOCHE_E2B_TEMPLATE chooses another."
_WORDS = 1000  # characters of the agent's standard error that are kept
# Makes the folders that Cloche promises, with sudo if need be; then the agent takes the place of the shell.
_START = (
    f'for d in {HOME} {KERNELS}; do [ -d "$d" ] || mkdir -p "$d" 2>/dev/null '
    f'|| sudo -n install -d -o "$(id -u)" -g "$(id -g)" "$d"; done; exec python3 {_PLACE} text'
)


class Account(NamedTuple):
    """The service's address and the key for it; E2B's client reads what is None from its own variables."""

    api_key: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None
    template: str = "code-interpreter-v1"

    def options(self) -> dict[str, Any]:
        """The arguments for E2B's client."""
        known = {"api_key": self.api_key, "api_url": self.api_url, "sandbox_url": self.sandbox_url or self.api_url}
        return {name: value for name, value in known.items() if value}


class RemoteSandboxWarden:
    """Looks after one sandbox on the service."""

    def __init__(self, account: Account, lifetime_s: float | None, stream: sockets.Socket, leash: sockets.Socket):
        self._account = account
        self._stream, self._leash = (socket(fileno=end.detach()) for end in (stream, leash))
        self._loop = asyncio.get_running_loop()
        self._reason: asyncio.Future[str] = self._loop.create_future()  # why the sandbox ends
        self._sandbox: Any = None
        self._has_spoken = False
        self._words = ""  # the end of the agent's standard error
        self._alarm: asyncio.TimerHandle | None = None
        self._end_at: float | None = None
        self._stream.setblocking(False)
        self._leash.setblocking(False)
        self._lifetime_s = lifetime_s

    async def live(self) -> None:
        """Look after the sandbox from its creation to its end."""
        making = asyncio.create_task(self._make())
        tasks = [making, *map(asyncio.create_task, (self._listen(), self._send_when(making), self._renew()))]
        try:
            reason = await self._reason
            self._shut()  # first: an engine that reads `ended` must not be able to send anything more
            if reason != "failed":
                self._tell(ended={"reason": reason})
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            await asyncio.wait({making}, timeout=_KILL_S)  # a sandbox that is half made could not be ended
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stream.close()
            await self._kill()
            self._tell(gone=True)
            self._leash.close()

    def end(self, reason: str = "") -> None:
        """End the sandbox; the first call gives the reason."""
        if not self._reason.done():
            self._reason.set_result(reason)

    # --- the service's side

    async def _make(self) -> Any:
        try:
            from e2b import AsyncSandbox

            self._sandbox = await AsyncSandbox.create(
                self._account.template, timeout=self._lease(), **self._account.options()
            )
            await self._sandbox.files.write(_PLACE, archive(_PLACE))
            handle = await self._sandbox.commands.run(
                _START,
                background=True,
                stdin=True,
                timeout=0,
                on_stdout=self._receiver(),
                on_stderr=self._keep_words,
                retain_output=False,
            )
            self._set_deadline(self._lifetime_s)
            self._tell(ready=True)
            return handle
        except Exception as problem:
            self._fail(f"{type(problem).__name__}: {problem}", _hint(problem))
            return None

    async def _send_when(self, making: asyncio.Task[Any]) -> None:
        """Once there is an agent, pass the engine's frames on to it, until one of them is gone."""
        handle = await asyncio.shield(making)
        if handle is None:
            return
        waiting = asyncio.create_task(self._await_end(handle))
        try:
            while data := await self._loop.sock_recv(self._stream, 4 * text.CHUNK):
                await handle.send_stdin(text.encoded(data))
        except OSError:
            pass  # the engine has closed it
        except Exception as problem:  # of any class: E2B's client has many for a lost connection
            self._keep_words(str(problem))
            self.end("lost")
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, handle.disconnect(), return_exceptions=True)

    async def _await_end(self, handle: Any) -> None:
        try:
            await handle.wait()
        except Exception as problem:
            self._words = self._words or str(problem)
        if self._has_spoken:
            self.end("lost")
        else:
            self._fail(f"the agent did not start ({self._words.strip() or 'it said nothing'})", _TEMPLATE)

    def _receiver(self) -> Callable[[str], Any]:
        decoder = text.LineDecoder()

        async def receive(lines: str) -> None:
            try:
                data = decoder.feed(lines.encode())
                self._has_spoken = self._has_spoken or bool(data)
                await self._loop.sock_sendall(self._stream, data)  # the service waits while the engine does not read
            except (OSError, text.NotBase64):
                self.end("lost")

        return receive

    def _keep_words(self, words: str) -> None:
        self._words = (self._words + words)[-_WORDS:]

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._sandbox is not None:
                try:
                    await self._sandbox.set_timeout(self._lease())
                except Exception:
                    continue  # if the sandbox is gone, others notice; if not, there is time to try again

    def _lease(self) -> int:
        if self._end_at is None:
            return LEASE_S
        return max(1, min(LEASE_S, ceil(self._end_at - self._loop.time()) + 5))

    async def _kill(self) -> None:
        if self._sandbox is not None:
            try:
                await self._sandbox.kill(request_timeout=_KILL_S)
            except Exception:
                pass  # its lease ends it

    async def _usage(self) -> dict[str, Any]:
        try:
            measured = await self._sandbox.get_metrics(request_timeout=_MEASURE_S) if self._sandbox is not None else []
        except Exception:
            return {}
        return {"memory": measured[-1].mem_used} if measured else {}

    # --- the engine's side

    def _shut(self) -> None:
        """Show the engine the end of the stream; the socket stays open, because the event loop still watches it."""
        try:
            self._stream.shutdown(SHUT_RDWR)
        except OSError:
            pass  # the engine has closed it already

    async def _listen(self) -> None:
        while True:
            try:
                message = await self._loop.sock_recv(self._leash, 4096)
            except OSError:
                message = b""
            request = leash_messages.decode(message)
            if "usage" in request:
                self._tell(usage=await self._usage())
            if "lifetime_s" in request:
                self._set_deadline(request["lifetime_s"])
            if "pause" in request:  # the service could, but the connection to the agent would not survive it
                self._tell(
                    refused="A sandbox behind isolation='e2b' cannot be paused.",
                    hint="Keep it running, or make a checkpoint and close it.",
                )
            if "end" in request:
                self.end()
                return

    def _set_deadline(self, seconds: float | None) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._loop.call_later(seconds, self.end, "timeout")
        self._end_at = None if seconds is None else self._loop.time() + seconds

    def _fail(self, reason: str, hint: str) -> None:
        if not self._reason.done():
            self._tell(failed=reason.rstrip("."), hint=hint)
            self.end("failed")

    def _tell(self, **message: Any) -> None:
        leash_messages.tell(self._leash, **message)


def _hint(problem: Exception) -> str:
    if type(problem).__name__ == "AuthenticationException":
        return "Set the service's key with CLOCHE_E2B_API_KEY or E2B_API_KEY."
    return "This is the error of E2B's client. Check the service's address, CLOCHE_E2B_API_URL or E2B_API_URL."
