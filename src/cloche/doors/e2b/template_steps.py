"""Translates what E2B's clients send to build a template into the specification of an environment.

Nothing is decided or carried out here.  Each instruction of the client becomes at most one step, so that a step that
fails can be named as the client knows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from posixpath import join, normpath
from shlex import quote
from typing import Any, NamedTuple

from cloche.doors.e2b.base_images import HostFacts, note_on
from cloche.doors.e2b.sandboxes import HOME
from cloche.doors.e2b.template_names import UNAVAILABLE
from cloche.errors import InvalidRun
from cloche.model.environments import EnvironmentSpec, Step
from cloche.packages import system_packages, workshop
from cloche.packages.start_command import script

FOLDER = "/tmp/.cloche-template"  # a build's own files, inside; /tmp is not part of an environment
FINALIZE, BASE = "finalize", "base"  # the clients' names for the last step and the first
_MOST_STEPS, _MOST_TEXT = 180, 200 << 10
_HASH = re.compile(r"[0-9a-f]{64}")
_MODE = re.compile(r"[0-7]{3,4}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_SLEEP = re.compile(r"sleep (\d+)")
_APT = re.compile(r"\bapt(-get)?\b")
_HOMES = {"user": HOME, "root": "/root"}
_USERS = {"": "", "user": "user", "root": "root", "0": "root", "1000": "user"}
_TOOLS = {
    "mcp-gateway": "no MCP gateway; this server speaks MCP itself, at /mcp",
    "devcontainer": "no containers: copy the project's files, and install its packages with pip or npm",
    "docker": "no containers: write the steps of the image as steps of the template",
}


class Plan(NamedTuple):
    """A template as an environment."""

    spec: EnvironmentSpec
    origins: tuple[str, ...]  # for each step, what the client calls it: its number, or `finalize`
    notes: tuple[str, ...]  # for the log
    user: str  # of commands in the template's sandboxes


class StepRefused(InvalidRun):
    """A step of a template that an environment cannot express."""

    def __init__(self, origin: str, problem: InvalidRun) -> None:
        super().__init__(problem.message, hint=problem.hint)
        self.origin = origin


def needed_archives(body: Mapping[str, Any]) -> list[str]:
    """The hashes of the archives that a template's steps copy files from."""
    found = (step.get("filesHash") for step in _steps(body) if step.get("type") == "COPY")
    return list(dict.fromkeys(str(each) for each in found if is_hash(each)))


def is_hash(text: object) -> bool:
    """Whether a text is the hash by which a client names an archive."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def translated(
    body: Mapping[str, Any],
    facts: HostFacts,
    archive: Callable[[str], memoryview | None],
    apt_packages: Callable[[], tuple[str, ...]],
    base_user: str = "",
    path: str = "",
) -> Plan:
    """Translate a template; `path` is the PATH in a sandbox.  Raises StepRefused for what cannot be expressed."""
    work = _Translation(archive, apt_packages, base_user or "user", path)
    try:
        base = work.begin(body, facts)
    except InvalidRun as problem:
        raise StepRefused(BASE, problem) from None
    for number, step in enumerate(_steps(body), 1):
        try:
            work.add(str(number), step)
        except InvalidRun as problem:
            raise StepRefused(str(number), problem) from None
    try:
        start, ready = _command(body, "startCmd"), _command(body, "readyCmd")
        work.finalize(start, ready)
        start, ready = work.commands(start, ready)
    except InvalidRun as problem:
        raise StepRefused(FINALIZE, problem) from None
    spec = EnvironmentSpec(steps=tuple(work.steps), start=start, ready=ready, base=base)
    return Plan(spec, tuple(work.origins), tuple(work.notes), work.user)


class _Translation:
    def __init__(
        self,
        archive: Callable[[str], memoryview | None],
        apt_packages: Callable[[], tuple[str, ...]],
        user: str,
        path: str,
    ) -> None:
        self._archive, self._apt_packages = archive, apt_packages
        self.user, self.folder = user, HOME
        self._variables = {"PATH": path, "HOME": HOME}
        self._has_apt = self._has_placer = False
        self.steps: list[Step] = []
        self.origins: list[str] = []
        self.notes: list[str] = []

    def begin(self, body: Mapping[str, Any], facts: HostFacts) -> str:
        """Check what the template begins with; return the name of the environment, or an empty text."""
        if body.get("fromImageRegistry"):
            raise InvalidRun(
                "fromImageRegistry is not available: images are not fetched, from no registry.",
                hint="Begin with from_base_image(), without credentials.",
            )
        template, image = body.get("fromTemplate"), body.get("fromImage")
        if template:
            name = str(template)
            if reason := UNAVAILABLE.get(name.partition(":")[0]):
                raise InvalidRun(f"The template {name} is not available.", hint=reason)
            return name
        if image:
            self.notes.append(note_on(str(image), facts))
        self._add(BASE, Step(kind="folder", text=HOME))
        return ""

    def add(self, origin: str, step: Mapping[str, Any]) -> None:
        """Add an instruction."""
        kind, args = step.get("type"), step.get("args") or []
        if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
            raise InvalidRun(f"The arguments of the step {kind} are a list of texts.")
        if kind == "RUN" and args:
            self._run(origin, args[0], _user(args[1] if len(args) > 1 else ""))
        elif kind == "COPY" and len(args) > 1:
            self._copy(origin, step.get("filesHash"), *(*args, "", "")[:4])
        elif kind == "ENV" and args and len(args) % 2 == 0:
            self._set(origin, dict(zip(args[::2], args[1::2], strict=True)))
        elif kind == "WORKDIR" and args:
            self.folder = normpath(join(self.folder, _expanded(args[0], self._variables)))
            self._add(origin, Step(kind="folder", text=self.folder))
        elif kind == "USER" and args:
            self.user = _user(args[0]) or self.user
        else:
            raise InvalidRun(
                f"The step {kind!s:.50} {' '.join(args):.100} is not available.",
                hint="A template can have the steps RUN, COPY, ENV, WORKDIR and USER.",
            )

    def finalize(self, start: str, ready: str) -> None:
        """Try the start command once, since a mistake is better found by the build than by each sandbox."""
        if not start and not ready:
            return
        if found := _SLEEP.fullmatch(ready.strip()):
            self.notes.append(
                f"Warning: each sandbox of this template takes {found[1]} s to start, because its ready command only "
                "waits. wait_for_port, wait_for_url or wait_for_file wait no longer than needed."
            )
        trial = script(*self.commands(start, ready), ends=True)
        self._add(
            FINALIZE, Step(kind="run", text=f"exec /bin/bash -c {quote(trial)}", title=f"{start or ready} (trial)")
        )

    def commands(self, start: str, ready: str) -> tuple[str, str]:
        """The start command and the ready command as the template's user runs them."""
        return tuple(self._as_user(each, self.user) if each else "" for each in (start, ready))  # type: ignore[return-value]

    def _run(self, origin: str, command: str, user: str) -> None:
        for word, why in _TOOLS.items():
            if re.match(rf"\s*(sudo\s+)?{word}\s", command):
                raise InvalidRun(f"The command {word} is not available in a build: there are {why}.")
        files: tuple[tuple[str, bytes | memoryview, int], ...] = ()
        if _APT.search(command) and not self._has_apt:
            self._has_apt = True
            files = (
                (f"{FOLDER}/packages", "\n".join(self._apt_packages()).encode(), 0o644),
                *((f"{FOLDER}/bin/{name}", text.encode(), 0o755) for name, text in _apt_programs().items()),
            )
        text = f"PATH={FOLDER}/bin:$PATH\n{command}" if self._has_apt else command
        self._add(origin, Step(kind="run", text=self._of_build(text, user or self.user), title=command, files=files))

    def _copy(self, origin: str, digest: object, source: str, target: str, user: str, mode: str) -> None:
        _user(user)
        if not is_hash(digest):
            raise InvalidRun(f"The files of COPY {source:.100} have no hash.")
        if mode and not _MODE.fullmatch(mode):
            raise InvalidRun(f"{mode!r:.20} is not the mode of a file.", hint="Write it as 0o755.")
        where = _expanded(target, self._variables)
        where = f"{normpath(join(self.folder, where))}{'/' if where.endswith(('/', '/.')) or where == '.' else ''}"
        content = self._archive(str(digest))
        if content is None:
            raise InvalidRun(
                f"The files of COPY {source:.100} were not uploaded, or too long ago.", hint="Build again."
            )
        name = f"{FOLDER}/{digest}"
        files: list[tuple[str, bytes | memoryview, int]] = [(name, content, 0o644)]
        if not self._has_placer:
            self._has_placer = True
            files.append((f"{FOLDER}/place_files.py", workshop.program("place_files").encode(), 0o644))
        words = [f"{FOLDER}/place_files.py", name, source, where, mode]
        text = f"/opt/env/bin/python3 -IS {' '.join(map(quote, words))}"
        self._add(origin, Step(kind="run", text=text, title=f"COPY {source} {target}", files=tuple(files)))

    def _set(self, origin: str, given: Mapping[str, str]) -> None:
        found = {}
        for name, value in given.items():
            if not _NAME.fullmatch(name):
                raise InvalidRun(f"{name!r:.100} cannot be the name of a variable.")
            found[name] = _expanded(value, self._variables)
        self._variables.update(found)
        self._add(origin, Step(kind="env", variables=found))

    def _add(self, origin: str, step: Step) -> None:
        if len(self.steps) >= _MOST_STEPS:
            raise InvalidRun(f"A template has at most {_MOST_STEPS} steps.", hint="Join commands with &&.")
        self.steps.append(step)
        self.origins.append(origin)

    def _as_user(self, command: str, user: str) -> str:
        """The command for a login shell of a user, as E2B runs it."""
        if len(command) > _MOST_TEXT or "\0" in command:
            raise InvalidRun(f"A command has at most {_MOST_TEXT >> 10} KB, and no zero bytes.")
        return f"HOME={_HOMES[user]} USER={user} LOGNAME={user} exec /bin/bash -l -c {quote(command)}"

    def _of_build(self, command: str, user: str) -> str:
        """The command in a build, where pip installs packages as layers, which all sandboxes share."""
        return f"PACKAGES_AS_LAYERS=1 {self._as_user(command, user)}"


def _steps(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    steps = body.get("steps") or []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise InvalidRun("The steps of a template are a list of objects.")
    return steps


def _command(body: Mapping[str, Any], name: str) -> str:
    command = body.get(name) or ""
    if not isinstance(command, str) or len(command) > _MOST_TEXT or "\0" in command:
        raise InvalidRun(f"{name} is a text of at most {_MOST_TEXT >> 10} KB.")
    return command


def _user(name: str) -> str:
    """The user that a step names, with or without a group."""
    found = _USERS.get(name.partition(":")[0])
    if found is None:
        raise InvalidRun(
            f"The user {name!r:.100} does not exist in a sandbox, and cannot be made.", hint="Use `user` or `root`."
        )
    return found


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with the values of the variables that it names, as a shell would expand it between double quotes."""
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


def _apt_programs() -> Mapping[str, str]:
    return system_packages.stand_in(FOLDER)
