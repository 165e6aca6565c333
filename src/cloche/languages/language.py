"""What Cloche knows about a language, and how a program in it becomes commands."""

from __future__ import annotations

from os import urandom

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from cloche.languages.toolchain import FoundTools, Toolchain
    from cloche.model.result import Diagnostic

HOME = "/sandbox"  # paths in a project are relative to this folder
_LOOKED_AT = 256 << 10  # characters of a source
# Before the words of a step: the ecosystem, the project's folder, and a program that is to find the dependencies of the
# manifests there.  A sandbox of a wall that cannot provide them runs the program alone.
WITH_DEPENDENCIES = (
    *("sh", "-c"),
    'command -v with-dependencies > /dev/null && exec with-dependencies "$@"; shift 2; exec "$@"',
    "sh",
)
SCRATCH = "/tmp/build"  # compilers leave their output here, and the steps of a plan find it here


class Project(Plain):
    """The code to run, as far as its language needs to know about it."""

    entry: str  # absolute path of the file to run
    text: str | None = None  # the entry's text; None: the file is in the sandbox already and was not read
    root: str = HOME  # the folder that contains the project's files
    files: frozenset[str] = frozenset()  # paths relative to `root`, including the entry's
    snippet: bool = False  # the caller gave code, not a file: missing parts of a whole program may be added
    check: str = "report"  # type checking, in languages that have it: "off", "report", or "block" on errors
    cpu: float = 1.0  # cores that the program may use
    memory: int = 512 << 20  # bytes that the program may use
    texts: Mapping[str, str] = {}  # the texts of the `files` that the language's `reads` names

    def has(self, name: str) -> bool:
        return name in self.files

    @property
    def folder(self) -> str:
        """The folder of the entry."""
        return self.entry.rpartition("/")[0]


class Step(Plain):
    """A command before or beside the program, such as a compiler or a type checker."""

    name: str  # "compile", "check" …
    argv: tuple[str, ...]
    cwd: str = HOME
    env: Mapping[str, str] = {}


class Plan(Plain):
    """How to run a project: the files to write, the steps before and beside the program, and the program."""

    run: tuple[str, ...]  # the program's arguments are appended
    before: tuple[Step, ...] = ()  # run one after the other; the first failure ends the run
    beside: Step | None = None  # runs at the same time as the program; the result waits for it
    files: tuple[tuple[str, str], ...] = ()  # path and text of each file to write first; existing files are replaced
    env: Mapping[str, str] = {}
    display_folder: str = ""  # where the program leaves files to display: 001.png, 002.table.json …
    missing: str = ""  # a sentence about what the project needs and lacks: the run ends as "unavailable"


class Failure(Plain):
    """The error that a program printed when it failed."""

    kind: str  # "runtime" or "syntax"
    name: str  # the exception's class, or the closest thing to it
    message: str
    text: str  # the whole error as the program printed it


class Preparation(Plain):
    """Files that are made once, before any run, and that every sandbox sees read-only: a compiled standard library."""

    what: str  # for people: "the standard library, compiled"
    make: Callable[[FoundTools, str], None]  # fills a folder of the host by running our own code only
    version: int = 1  # raise it when `make` changes, so that the files are made again


class Language(Plain):
    """A language: its names, its tools, how its programs are built and run, and its kernel for sessions."""

    name: str  # also the name of its folder in cloche/languages
    title: str  # the name as people write it
    main: str  # the file name of a program
    extensions: tuple[str, ...]  # of its files, the usual one first
    aliases: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()  # extensions of other files that its sources can import
    toolchain: Toolchain | None = None
    command: tuple[str, ...] = ()  # runs a file; for languages that need no `plan`
    plan: Callable[[Project, FoundTools], Plan] | None = None
    entries: tuple[str, ...] = ()  # file names to try, after `main`, when a project does not name its entry
    manifests: tuple[str, ...] = ()  # files that mark a project's root: "go.mod" …
    source_folders: tuple[str, ...] = ()  # folders that are never a project's root, because the root is above: "src"
    reads: tuple[str, ...] = ()  # files whose text `plan` needs: names in the root, or extensions such as ".h"
    # From a manifest's name and text to the files that may be the project's entry, the likeliest first.
    manifest_entries: Callable[[str, str], Sequence[str]] | None = None
    diagnose: Callable[[str, Project], tuple[Diagnostic, ...]] | None = None  # reads a compiler's or checker's output
    explain: Callable[[str], Failure | None] | None = None  # finds the error at the end of standard error
    preparation: Preparation | None = None
    hello: str = ""  # a program that prints "Hello from TITLE"
    warm: bool = False  # Python: run in a fork of the warm interpreter instead of starting a program
    # Where an interpreter that is started before its program is known stops and waits: the name of a system call, or
    # "files" for the first call that names one of the sandbox's files.  Whatever the interpreter does before that call
    # must not depend on the program or on the time.
    ahead: str = ""
    # How the kernel of its sessions starts: {"fork": …} with what it "needs" on PATH, or {"argv": […]}.
    # With "ends_input", an interrupt ends the input of a cell.
    kernel: dict[str, Any] | None = None
    context: str = ""  # the language whose default context its cells share, if not its own
    libraries: frozenset[str] = frozenset()  # a source that mentions one runs in a nursery that has it imported

    @property
    def source(self) -> str:
        """The path for the code of a run."""
        return f"{HOME}/code/{self.main}"

    def plan_for(self, project: Project, found: FoundTools) -> Plan:
        if self.plan is not None:
            return self.plan(project, found)
        return Plan(run=(found[self.command[0]], *self.command[1:], project.entry))

    def imports(self, code: str) -> frozenset[str]:
        """Return the `libraries` that the source mentions near its beginning."""
        code = code[:_LOOKED_AT]
        return frozenset(name for name in self.libraries if name in code)


def new_display_folder() -> str:
    """Name a folder in the sandbox that no other run uses."""
    return f"/tmp/.shown/{urandom(6).hex()}"
