# Generated from src/cloche/client/sandboxes.py by scripts/blocking.py: edit that file instead.
"""The sandboxes on a server, whoever made them: lists and finds them, and reads what has run in them."""

from __future__ import annotations

from _collections_abc import Mapping

from cloche.blocking.client.feed import Feed
from cloche.blocking.client.sandbox import ServerSandbox
from cloche.blocking.client.server import Server
from cloche.client import shapes
from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.limits import Limits
from cloche.model.plain import Plain
from cloche.model.result import Result, Usage
from cloche.nearest import did_you_mean
from cloche.sandbox.requests import SandboxRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.network import Network
    from cloche.model.packages import Requirement

PREFIX = "sbx_"
_SHOWN = 5  # sandboxes that an error message names


class SandboxOnServer(Plain):
    """A sandbox as its server lists it; times are seconds since the epoch."""

    id: str
    state: str  # "alive", "ended", or "lost" if the server crashed
    created: float
    expires: float | None
    paused: bool
    wall: str
    metadata: Mapping[str, str]
    limits: Mapping[str, Any]
    ended: float | None = None
    reason: str = ""

    @property
    def name(self) -> str:
        """The name that its owner has given it; empty if it has none."""
        return str(self.metadata.get("name", ""))

    @property
    def short_id(self) -> str:
        """The part of the id that is usually unique, for a person to type."""
        return self.id[:16]


class Work(Plain):
    """A run or a command in a sandbox; `result` is None until it has ended."""

    id: str
    kind: str  # "run" or "command"
    words: str  # the language of a run, the words of a command
    started: float
    is_over: bool


class ServerSandboxes:
    """The sandboxes that a key of a server can see."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def all(self, state: str = "alive") -> list[SandboxOnServer]:
        """List sandboxes, newest first; an empty state means those that have ended as well."""
        query = f"?state={state}" if state else ""
        found = self.server.items(f"/v1/sandboxes{query}")
        return [SandboxOnServer(**shapes.fields_of(SandboxOnServer, one)) for one in found]

    def find(self, word: str, *, living: bool = True) -> SandboxOnServer:
        """Return the sandbox that has this id, this name, or the only id that begins like this."""
        alive = self.all()
        found = _meant(word, alive)
        if found is None and not living:
            alive = self.all("")
            found = _meant(word, alive)
        if found is None:
            names = [each.name or each.short_id for each in alive]
            more = "" if living else " --all"
            hint = did_you_mean(word, names, f"`cloche ls{more}` lists the sandboxes of {self.server.url}.")
            raise Gone(f"There is no {'living ' if living else ''}sandbox {word!r:.100}.", hint)
        return found

    def box(self, identity: str) -> ServerSandbox:
        """Return the sandbox with this id, to be worked with; closing it does not end it."""
        request = SandboxRequest(Limits(), {}, server_options={"id": identity})
        return ServerSandbox(self.server, request, "auto")

    def new(
        self,
        metadata: Mapping[str, str],
        lifetime: float | None = None,
        network: Network | None = None,
        packages: tuple[Requirement, ...] = (),
        environment: str | None = None,
    ) -> ServerSandbox:
        """Return a new sandbox with the usual limits; it is made when it is opened."""
        options = {"metadata": metadata}
        request = SandboxRequest(
            Limits(),
            {},
            lifetime=lifetime,
            network=network,
            packages=packages,
            environment=environment,
            server_options=options,
        )
        return ServerSandbox(self.server, request, "auto")

    def kill(self, identity: str) -> None:
        """End a sandbox and everything in it."""
        self.server.call("DELETE", _path(identity), timeout=None)

    def look(self, identity: str) -> tuple[Usage | None, list[str]]:
        """Return what a sandbox uses now, and its contexts; None and none if it does not answer."""
        try:
            usage = shapes.usage(self.server.call("GET", f"{_path(identity)}/usage"))
            return usage, [str(one["id"]) for one in self.server.items(f"{_path(identity)}/contexts")]
        except (Gone, Refused):
            return None, []  # it has just ended, or is paused

    def work(self, identity: str) -> list[Work]:
        """List the runs in a sandbox, and its commands if it lives; the oldest come first."""
        runs = self.server.items(f"/v1/runs?sandbox={shapes.quoted(identity)}")
        found = [Work(one["id"], "run", one["language"], one["started"], one["state"] != "running") for one in runs]
        try:
            commands = self.server.items(f"{_path(identity)}/commands")
        except (Gone, Refused):
            commands = []  # a server forgets the commands of a sandbox with the sandbox
        for one in commands:
            words = one["command"] if isinstance(one["command"], str) else " ".join(map(str, one["command"]))
            found.append(Work(one["id"], "command", words, one["started"], not one["running"]))
        return sorted(found, key=lambda each: each.started)

    def result(self, identity: str, work: Work) -> Result | None:
        """Return the outcome of a run or command; None if the server does not have it, or not yet."""
        path = f"/v1/runs/{work.id}" if work.kind == "run" else f"{_path(identity)}/commands/{work.id}"
        try:
            answer = self.server.call("GET", path)
        except Gone:
            return None
        return None if answer.get("result") is None else shapes.result(answer["result"])

    def events(self, identity: str, work: Work) -> Feed:
        """Return the events of a run or command, from its beginning."""
        path = f"/v1/runs/{work.id}" if work.kind == "run" else f"{_path(identity)}/commands/{work.id}"
        return Feed(self.server, again=f"{path}/events")

    def notices(self, identity: str) -> Feed:
        """Return the events of a sandbox from now on, and continue after a broken connection."""
        path = f"{_path(identity)}/events"
        answer = self.server.ask("GET", path, accept="text/event-stream", timeout=None)
        return Feed(self.server, answer, again=path)


def _meant(word: str, among: list[SandboxOnServer]) -> SandboxOnServer | None:
    """Return the sandbox that a word means; raise an error if it may mean several."""
    found = [each for each in among if each.id == word] or [each for each in among if each.name == word]
    if not found and word:
        found = [each for each in among if each.id.startswith((word, f"{PREFIX}{word}"))]
    if len(found) > 1:
        ids = ", ".join(each.id[:20] for each in found[:_SHOWN])
        raise InvalidRun(f"{word!r:.100} may mean {len(found)} sandboxes: {ids}.", "Write more of the id.")
    return found[0] if found else None


def _path(identity: str) -> str:
    return f"/v1/sandboxes/{shapes.quoted(identity)}"
