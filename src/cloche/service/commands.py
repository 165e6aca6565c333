"""Commands that were started in a sandbox and go on between requests."""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING, Any

from cloche.errors import ClocheError, Gone, Refused
from cloche.model.events import Event, Output
from cloche.model.result import Result
from cloche.sandbox.processes import AsyncProcess
from cloche.service.events import EventLog
from cloche.service.identity import new_id
from cloche.service.shapes import Telling, problem_json

if TYPE_CHECKING:
    from cloche.service.held import Held

MAX_LOG = 16 << 20  # characters of one command's events
MAX_FINISHED = 50  # commands that are over and still known, in one sandbox
MAX_KEPT = 128 << 20  # bytes of those, or so: their events and what they printed
MAX_RUNNING = 200
MAX_WAITING = 1 << 20  # bytes that a listener has not passed on yet


class Listener:
    """Takes the events of a command as they are, for somebody who passes them on; the command waits for who is slow."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._waiting = 0  # bytes in it
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self.over = False

    async def take(self, event: Event) -> None:
        """An event; waits while there is much that nobody has asked for."""
        if self.over:
            return
        self._events.append(event)
        self._waiting += len(event.data) if isinstance(event, Output) else 0
        self._news.set()
        while self._waiting > MAX_WAITING and not self.over:
            self._room.clear()
            await self._room.wait()

    async def next(self, patience_s: float | None) -> list[Event]:
        """What has happened since the last time; nothing when that is nothing for so long, or when it is over."""
        if not self._events and not self.over:
            try:
                async with asyncio.timeout(patience_s):
                    await self._news.wait()
            except TimeoutError:
                return []
        events, self._events, self._waiting = self._events, [], 0
        self._news.clear()
        self._room.set()
        return events

    def end(self) -> None:
        """Nothing more comes, or nobody wants it."""
        self.over = True
        self._news.set()
        self._room.set()


class Command:
    """A command under way, or over."""

    def __init__(self, held: Held, process: AsyncProcess, words: str | list[str], pty: bool, most: int) -> None:
        self.id, self.process, self.words, self.pty = new_id("cmd"), process, words, pty
        self.started = time()
        self.log = EventLog(most)
        self.result: Result | None = None
        self.listeners: set[Listener] = set()
        self._held = held
        self.task = asyncio.create_task(self._follow())

    @property
    def pid(self) -> int | None:
        """Its process id inside the sandbox, once it runs: what is compiled takes a while."""
        return self.process.pid if self.process.has_begun else None

    @property
    def size(self) -> int:
        """How much it keeps, in bytes or so: events, and its output as it came, as bytes and as text."""
        result = self.result
        return self.log.size + (0 if result is None else 3 * (len(result.stdout_bytes) + len(result.stderr_bytes)))

    async def _follow(self) -> None:
        telling = Telling("")
        has_begun = self.process.has_begun
        if has_begun:
            self._say("started", {"pid": self.pid})
        try:
            async for event in self.process:
                if event.kind == "exit":
                    await self._held.save_if_possible()
                for listener in tuple(self.listeners):
                    await listener.take(event)
                for kind, told in telling.tell(event):
                    if kind == "started" and not has_begun:
                        self._say("started", {"pid": self.pid})
                    elif kind != "started":
                        self._say(kind, told)
                await self.log.keep_pace()
        except ClocheError as problem:
            self._say("error", {"error": problem_json(problem)})
        finally:
            self.result = self.process.result
            self.log.end()
            for listener in tuple(self.listeners):
                listener.end()
            self._held.commands.forget_old()

    def _say(self, kind: str, told: dict[str, Any]) -> None:
        self.log.add(kind, told)
        self._held.happened(f"command.{kind}", {"command_id": self.id, **told})

    async def outcome(self) -> Result:
        """Wait for its end."""
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
        """May another one be started?"""
        if len(self.running()) >= MAX_RUNNING:
            raise Refused(f"There are {MAX_RUNNING} commands running already.", hint="End some of them.")

    def add(self, process: AsyncProcess, words: str | list[str], pty: bool, most: int = MAX_LOG) -> Command:
        """Follow one that was started, with `most` characters of its events in the log."""
        process.is_followed = True
        command = Command(self._held, process, words, pty, most)
        self._by_id[command.id] = command
        return command

    def forget_old(self) -> None:
        """Forget those that ended first, when there are many or they keep much; never the last one."""
        over = [known for known in self._by_id.values() if known.log.over]
        size = sum(known.size for known in over)
        while len(over) > MAX_FINISHED or (size > MAX_KEPT and len(over) > 1):
            oldest = over.pop(0)
            size -= oldest.size
            del self._by_id[oldest.id]

    def find(self, identity: str) -> Command:
        """The command of this id."""
        if identity not in self._by_id:
            raise Gone("There is no such command.", hint="GET …/commands lists those that there are.")
        return self._by_id[identity]

    def all(self) -> list[Command]:
        """All that run, and those that ended lately."""
        return list(self._by_id.values())

    def running(self) -> list[Command]:
        """Those that run."""
        return [command for command in self._by_id.values() if not command.log.over]

    def tasks(self) -> list[asyncio.Task[None]]:
        """Who follows those that run."""
        return [command.task for command in self.running()]

    def end(self) -> None:
        """The sandbox has ended, and they with it."""
        for command in self.running():
            command.log.end()
        self._by_id.clear()  # they and the sandbox know each other: nothing of it would be freed for a long time
