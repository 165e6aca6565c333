"""One sandbox on the service: made, furnished with an agent, spoken with, ended.

It is held as a nursery holds one (walls/jail/nursery.py): by a leash, on which the engine asks for `usage`, moves the
`deadline` or says `end`, and is told `failed` or `ready`, then `usage`, `ended`, `gone`.  The service is asked for a
little time again and again, a lease, so that a sandbox also ends when nobody is left to end it.
"""

from __future__ import annotations

import asyncio
import marshal
from _socket import SHUT_RDWR
from collections.abc import Callable
from math import ceil
from socket import socket
from typing import Any, NamedTuple

from cloche.walls import sockets
from cloche.walls.portable import text
from cloche.walls.portable.archive import archive
from cloche.walls.portable.entry import HOME, KERNELS

LEASE_S, RENEW_S = 120, 30.0
_KILL_S = 15.0  # for the service to answer; the engine waits a little longer
_MEASURE_S = 5.0
_PLACE = "/tmp/.cloche/agent.pyz"
_TEMPLATE = "The template needs Python 3.11 or newer; CLOCHE_E2B_TEMPLATE chooses another."
_WORDS = 1000  # characters of what the agent said in the end
# The folders that Cloche promises are made by whoever may; then the agent takes the place of the shell.
_START = (
    f'for d in {HOME} {KERNELS}; do [ -d "$d" ] || mkdir -p "$d" 2>/dev/null '
    f'|| sudo -n install -d -o "$(id -u)" -g "$(id -g)" "$d"; done; exec python3 {_PLACE} text'
)


class Account(NamedTuple):
    """Where the service is, and whose sandboxes these are; what is None is left to the client and its environment."""

    api_key: str | None = None
    api_url: str | None = None
    sandbox_url: str | None = None
    template: str = "code-interpreter-v1"

    def options(self) -> dict[str, Any]:
        """As the client takes them."""
        told = {"api_key": self.api_key, "api_url": self.api_url, "sandbox_url": self.sandbox_url or self.api_url}
        return {name: value for name, value in told.items() if value}


class Remote:
    """A sandbox on the service."""

    def __init__(self, account: Account, lifetime_s: float | None, stream: sockets.Socket, leash: sockets.Socket):
        self._account = account
        self._stream, self._leash = (socket(fileno=end.detach()) for end in (stream, leash))
        self._loop = asyncio.get_running_loop()
        self._reason: asyncio.Future[str] = self._loop.create_future()  # why it ends
        self._sandbox: Any = None
        self._has_spoken = False
        self._words = ""  # the latest on its standard error
        self._alarm: asyncio.TimerHandle | None = None
        self._end_at: float | None = None
        self._stream.setblocking(False)
        self._leash.setblocking(False)
        self._lifetime_s = lifetime_s

    async def live(self) -> None:
        """All of its life."""
        making = asyncio.create_task(self._make())
        tasks = [making, *map(asyncio.create_task, (self._listen(), self._speak_when(making), self._renew()))]
        try:
            reason = await self._reason
            self._shut()  # first: who hears that it has ended shall not be able to say anything more
            if reason != "failed":
                self._tell(ended={"reason": reason})
        finally:
            if self._alarm is not None:
                self._alarm.cancel()
            await asyncio.wait({making}, timeout=_KILL_S)  # not given up half-way: it could not be ended then
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._stream.close()
            await self._kill()
            self._tell(gone=True)
            self._leash.close()

    def end(self, reason: str = "") -> None:
        """Have it end; the first who says so gives the reason."""
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
                on_stdout=self._heard(),
                on_stderr=self._keep_words,
                retain_output=False,
            )
            self._set_deadline(self._lifetime_s)
            self._tell(ready=True)
            return handle
        except Exception as problem:
            self._fail(f"{type(problem).__name__}: {problem}", _hint(problem))
            return None

    async def _speak_when(self, making: asyncio.Task[Any]) -> None:
        """Pass on what the engine sends, once there is an agent, until one of them goes."""
        handle = await asyncio.shield(making)
        if handle is None:
            return
        waiting = asyncio.create_task(self._await_end(handle))
        try:
            while data := await self._loop.sock_recv(self._stream, 4 * text.CHUNK):
                await handle.send_stdin(text.encoded(data))
        except OSError:
            pass  # the engine has closed it
        except Exception as problem:  # whatever the client makes of a connection that is gone
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

    def _heard(self) -> Callable[[str], Any]:
        decoder = text.Decoder()

        async def heard(lines: str) -> None:
            try:
                data = decoder.feed(lines.encode())
                self._has_spoken = self._has_spoken or bool(data)
                await self._loop.sock_sendall(self._stream, data)  # the service waits while the engine does not read
            except (OSError, text.Garbled):
                self.end("lost")

        return heard

    def _keep_words(self, said: str) -> None:
        self._words = (self._words + said)[-_WORDS:]

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            if self._sandbox is not None:
                try:
                    await self._sandbox.set_timeout(self._lease())
                except Exception:
                    continue  # it is gone, which is noticed elsewhere; or it is not, and there is time to ask again

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
        """Have the engine know that nothing more comes; not closed yet, for the loop looks at it."""
        try:
            self._stream.shutdown(SHUT_RDWR)
        except OSError:
            pass  # it is gone already

    async def _listen(self) -> None:
        while True:
            try:
                message = await self._loop.sock_recv(self._leash, 4096)
            except OSError:
                message = b""
            asked = marshal.loads(message) if message else {"end": True}
            if "usage" in asked:
                self._tell(usage=await self._usage())
            if "deadline" in asked:
                self._set_deadline(asked["deadline"])
            if "end" in asked:
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
        try:
            self._leash.send(marshal.dumps(message), sockets.DONTWAIT)
        except OSError:
            pass  # the engine is gone, or does not listen


def _hint(problem: Exception) -> str:
    if type(problem).__name__ == "AuthenticationException":
        return "Say whose sandboxes they are: CLOCHE_E2B_API_KEY, or E2B_API_KEY."
    return "So says E2B's client; the service's address is CLOCHE_E2B_API_URL, or E2B_API_URL."
