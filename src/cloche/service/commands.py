"""Commands that were started in a sandbox and go on between requests."""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING

from cloche.engine.commands import AsyncProcess
from cloche.errors import ClocheError, Gone, Refused
from cloche.model.events import Started
from cloche.model.result import Result
from cloche.service.event_log import EventLog, LogEntry
from cloche.service.events import NoResult, OfCommand
from cloche.service.identity import new_id

if TYPE_CHECKING:
    from cloche.service.held import Held

MAX_LOG = 16 << 20  # characters of the events of one command
MAX_FINISHED = 50  # commands of one sandbox that have ended and are still known
MAX_KEPT = 128 << 20  # bytes of those commands, about: their events and their output
MAX_RUNNING = 200


class Command:
    """A command, from its start until the server forgets it."""

    def __init__(self, held: Held, process: AsyncProcess, words: str | list[str], pty: bool, most: int) -> None:
        self.id, self.process, self.words, self.pty = new_id("cmd"), process, words, pty
        self.started = time()
        self.log = EventLog(most, self._feed)
        self.result: Result | None = None
        self._held = held
        self.task = asyncio.create_task(self._follow())

    @property
    def pid(self) -> int | None:
        """The process id inside the sandbox; None while the program is still being compiled."""
        return self.process.pid if self.process.has_begun else None

    @property
    def size(self) -> int:
        """About how many bytes it takes: its events, and its output as it came, as bytes and as text."""
        result = self.result
        return self.log.size + (0 if result is None else 3 * (len(result.stdout_bytes) + len(result.stderr_bytes)))

    async def _follow(self) -> None:
        has_begun = self.process.has_begun
        if has_begun:
            self.log.add(Started(self.process.pid))
        try:
            async for event in self.process:
                if event.kind == "exit":
                    await self._held.save_if_possible()
                if event.kind != "started" or not has_begun:
                    self.log.add(event)
                    await self.log.keep_pace()
        except ClocheError as problem:
            self.log.add(NoResult(problem))
        finally:
            self.result = self.process.result
            self.log.end()
            self._held.commands.forget_old()

    def _feed(self, entry: LogEntry) -> None:
        self._held.publish(OfCommand(self.id, entry.event), entry.size)

    async def outcome(self) -> Result:
        """Wait for the end."""
        await asyncio.shield(self.task)
        if self.result is None:
            raise Gone("The sandbox has ended.", hint="Make a new one.")
        return self.result


class Commands:
    """The commands of one sandbox."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._by_id: dict[str, Command] = {}

    def check_room(self) -> None:
        """Raises Refused when too many commands are running."""
        if len(self.running()) >= MAX_RUNNING:
            raise Refused(f"There are {MAX_RUNNING} commands running already.", hint="End some of them.")

    def add(self, process: AsyncProcess, words: str | list[str], pty: bool, most: int = MAX_LOG) -> Command:
        """Follow a process that was started; its log keeps `most` characters of events."""
        process.is_followed = True
        command = Command(self._held, process, words, pty, most)
        self._by_id[command.id] = command
        return command

    def forget_old(self) -> None:
        """Forget the commands that ended first when there are many or they take much memory; keep the last one."""
        over = [known for known in self._by_id.values() if known.log.over]
        size = sum(known.size for known in over)
        while len(over) > MAX_FINISHED or (size > MAX_KEPT and len(over) > 1):
            oldest = over.pop(0)
            size -= oldest.size
            del self._by_id[oldest.id]

    def find(self, identity: str) -> Command:
        if identity not in self._by_id:
            raise Gone("There is no such command.", hint="GET …/commands lists those that there are.")
        return self._by_id[identity]

    def all(self) -> list[Command]:
        """The commands that run, and those that ended lately."""
        return list(self._by_id.values())

    def running(self) -> list[Command]:
        return [command for command in self._by_id.values() if not command.log.over]

    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that follow the running commands."""
        return [command.task for command in self.running()]

    def end(self) -> None:
        """The sandbox has ended, and its commands with it."""
        for command in self.running():
            command.log.end()
        self._by_id.clear()  # commands and sandbox refer to each other, which would delay freeing the sandbox
