"""What Cloche knows of a language, and how a program in it becomes commands."""

from __future__ import annotations

from os import urandom

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cloche.languages.toolchain import Found, Toolchain
    from cloche.model.result import Diagnostic

HOME = "/sandbox"  # what paths in a project are relative to
SCRATCH = "/tmp/build"  # where compilers leave what they make; `Step`s find it there


class Project(Plain):
    """What is to be run, as far as its language has to know."""

    entry: str  # absolute path of the file to run
    text: str | None = None  # what is in it; None: it is in the sandbox already, and nobody has looked
    root: str = HOME  # the folder that the project's files are in
    files: frozenset[str] = frozenset()  # their paths relative to `root`, the entry's among them
    snippet: bool = False  # somebody gave code, not a file: what it lacks of a whole program may be added
    check: str = "report"  # of types, where that is a thing of its own: "off", "report", or "block" on errors
    cpu: float = 1.0  # how many cores it may use
    memory: int = 512 << 20  # and how many bytes
    texts: Mapping[str, str] = {}  # those of `files` that its language reads

    def has(self, name: str) -> bool:
        """Is there such a file in its root?"""
        return name in self.files

    @property
    def folder(self) -> str:
        """Where the entry is."""
        return self.entry.rpartition("/")[0]


class Step(Plain):
    """A command on the way to a run, or beside it: a compiler, a checker."""

    name: str  # "compile", "check" …
    argv: tuple[str, ...]
    cwd: str = HOME
    env: Mapping[str, str] = {}


class Plan(Plain):
    """How a project is run: what is written, what comes before, beside, and then."""

    run: tuple[str, ...]  # the program's arguments are appended
    before: tuple[Step, ...] = ()  # one after the other; the first that fails is the end
    beside: Step | None = None  # while the program runs; its result waits for it
    files: tuple[tuple[str, str], ...] = ()  # path and text: written first, in place of what is there
    env: Mapping[str, str] = {}
    display_folder: str = ""  # a folder where the program leaves what is to be displayed: 001.png, 002.table.json …
    lacks: str = ""  # a sentence on what the project needs and has not; it ends as "unavailable" instead of running


class Failure(Plain):
    """What a program printed when it failed: `kind` is "runtime" or "syntax"."""

    kind: str
    name: str  # the exception's class, or whatever comes closest
    message: str
    text: str  # all of it, as it was printed


class Preparation(Plain):
    """What is made once, ahead of all runs, and shown to every sandbox read-only: a standard library, compiled."""

    what: str  # for a person: "the standard library, compiled"
    make: Callable[[Found, str], None]  # fills a folder of the host; what it runs is ours alone
    version: int = 1  # of this way of making it: another one is made anew


class Language(Plain):
    """A language: its names, its tools, how a program in it is built and run, and what keeps its state in a session."""

    name: str
    title: str  # as people write it
    main: str  # what a program's file is called
    extensions: tuple[str, ...]  # of its files, the usual one first
    aliases: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()  # endings of other files that its sources can import
    toolchain: Toolchain | None = None
    command: tuple[str, ...] = ()  # what runs a file; for those that need no `plan`
    plan: Callable[[Project, Found], Plan] | None = None
    entries: tuple[str, ...] = ()  # where to look for the entry of a project that names none, beside `main`
    manifests: tuple[str, ...] = ()  # what names a project's root: "go.mod" …
    below: tuple[str, ...] = ()  # folders with sources that are never a whole project: its root is above
    reads: tuple[str, ...] = ()  # files whose text `plan` wants to see: names in the root, or endings such as ".h"
    begins: Callable[[str, str], Sequence[str]] | None = None  # from a manifest and its text: where it says to begin
    diagnose: Callable[[str, Project], tuple[Diagnostic, ...]] | None = None  # what its compiler or checker says
    explain: Callable[[str], Failure | None] | None = None  # from the end of standard error to what went wrong
    preparation: Preparation | None = None
    hello: str = ""
    warm: bool = False  # Python: run in a fork of the warm interpreter instead
    # If it can be started before its program is known: the system call before which it then waits, or "files" for the
    # first that names a file of the sandbox's.  Whatever it does before must not depend on the program, or on the time.
    ahead: str = ""
    # How its sessions' kernel starts: {"fork": …} (and what it "needs" on PATH), or {"argv": […]}
    kernel: dict[str, Any] | None = None
    context: str = ""  # whose default context its cells run in, if not its own
    words: frozenset[str] = frozenset()  # libraries to look for in the source, as a hint where to run it

    @property
    def source(self) -> str:
        """Where the code of a run goes."""
        return f"{HOME}/code/{self.main}"

    def plan_for(self, project: Project, found: Found) -> Plan:
        """How to run a project."""
        if self.plan is not None:
            return self.plan(project, found)
        return Plan(run=(found[self.command[0]], *self.command[1:], project.entry))

    def imports(self, code: str) -> frozenset[str]:
        """Which of `words` the source mentions."""
        return frozenset(word for word in self.words if word in code)


def new_display_folder() -> str:
    """Name a folder in the sandbox that no other run uses."""
    return f"/tmp/.shown/{urandom(6).hex()}"
