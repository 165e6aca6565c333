"""Commands that were started in a sandbox and go on between requests."""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING, Any

from cloche.engine.commands import AsyncProcess
from cloche.errors import ClocheError, Gone, Refused
from cloche.model.result import Result
from cloche.service.events import EventLog
from cloche.service.identity import new_id
from cloche.service.shapes import Telling, problem_json

if TYPE_CHECKING:
    from cloche.service.held import Held

MAX_LOG = 16 << 20  # characters of one command's events
MAX_FINISHED = 50  # commands that are over and still known, in one sandbox
MAX_RUNNING = 200


class Command:
    """A command under way, or over."""

    def __init__(self, held: Held, process: AsyncProcess, words: str | list[str], pty: bool) -> None:
        self.id, self.process, self.words, self.pty = new_id("cmd"), process, words, pty
        self.pid = process.pid
        self.started = time()
        self.log = EventLog(MAX_LOG)
        self.result: Result | None = None
        self._held = held
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        telling = Telling("")
        self._say("started", {"pid": self.pid})
        try:
            async for event in self.process:
                if event.kind == "exit":
                    await self._held.save_if_possible()
                for kind, told in telling.tell(event):
                    if kind != "started":
                        self._say(kind, told)
                await self.log.keep_pace()
        except ClocheError as problem:
            self._say("error", {"error": problem_json(problem)})
        finally:
            self.result = self.process.result
            self.log.end()

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

    def add(self, process: AsyncProcess, words: str | list[str], pty: bool) -> Command:
        """Follow one that was started."""
        command = Command(self._held, process, words, pty)
        self._by_id[command.id] = command
        over = [known.id for known in self._by_id.values() if known.log.over]
        for identity in over[:-MAX_FINISHED]:
            del self._by_id[identity]
        return command

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
