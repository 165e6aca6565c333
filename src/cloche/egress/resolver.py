"""Looks up the names that a policy allows, outside: first in the operator's table, then with the host's resolver."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from cloche.egress import addresses
from cloche.egress.addresses import Address

_KEEP_S = 5.0  # that an answer counts: a question of a program and its connection share one look-up
_WAIT_S = 10.0
_AT_ONCE = 8  # look-ups of one sandbox: a slow name server must not keep other sandboxes waiting
_MOST = 256  # threads, which exist only when they are needed
_MAX_KEPT = 1024
MAX_ADDRESSES = 16  # of a name that are tried

_threads = ThreadPoolExecutor(_MOST, "resolver")


class Unresolved(Exception):
    """A name could not be looked up; `is_missing` says that it does not exist."""

    def __init__(self, is_missing: bool, reason: str) -> None:
        super().__init__(reason)
        self.is_missing = is_missing


class Resolver:
    """The look-ups of one sandbox."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._kept: dict[str, tuple[float, asyncio.Task[list[Address]]]] = {}

    async def addresses(self, name: str, hosts: Mapping[str, str]) -> list[Address]:
        """The addresses of a name; raises Unresolved."""
        if name in hosts:
            return [addresses.parse(hosts[name])]
        now = monotonic()
        until, task = self._kept.get(name, (0.0, None))
        if task is None or until < now:
            self._kept.pop(name, None)
            while len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]  # the oldest
            task = asyncio.ensure_future(self._look_up(name))
            self._kept[name] = (now + _WAIT_S + _KEEP_S, task)
            task.add_done_callback(lambda done: self._found(name, done))
        return await asyncio.shield(task)

    def _found(self, name: str, task: asyncio.Task[list[Address]]) -> None:
        if not task.cancelled():
            task.exception()  # somebody may have stopped waiting for it
        if self._kept.get(name, (0.0, None))[1] is task:
            self._kept[name] = (monotonic() + _KEEP_S, task)

    async def _look_up(self, name: str) -> list[Address]:
        await self._turns.acquire()
        # A question that nobody waits for any more still has its thread, so its turn ends with that.
        asked = asyncio.get_running_loop().run_in_executor(_threads, _ask_host, name)
        asked.add_done_callback(self._answered)
        try:
            async with asyncio.timeout(_WAIT_S):
                found = await asyncio.shield(asked)
        except TimeoutError:
            raise Unresolved(False, "its name server does not answer") from None
        except socket.gaierror as problem:
            is_missing = problem.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
            raise Unresolved(is_missing, "the name does not exist" if is_missing else str(problem.strerror)) from None
        except OSError as problem:
            raise Unresolved(False, str(problem)) from None
        return list(dict.fromkeys(map(addresses.parse, found)))[:MAX_ADDRESSES]

    def _answered(self, asked: asyncio.Future[list[str]]) -> None:
        self._turns.release()
        if not asked.cancelled():
            asked.exception()  # it may have come too late for anybody


def _ask_host(name: str) -> list[str]:
    # With a dot at its end, so that no search domain of the host is tried.
    found = socket.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]
