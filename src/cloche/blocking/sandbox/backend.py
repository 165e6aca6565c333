# Generated from src/cloche/sandbox/backend.py by scripts/blocking.py: edit that file instead.
"""Defines a backend: the operations that the front needs from the place where a sandbox lives.

`engine/` implements these protocols on this host, `client/` on a server.  A third backend, say a cluster of nodes, is
one more place in places.py.  A backend receives arguments that are checked already.  It does not trust an answer that
comes from inside a sandbox.
"""

from __future__ import annotations

from typing import Protocol

from cloche.model.events import CellEvent, Event
from cloche.model.files import Change, Entry, Listing, Port
from cloche.model.history import Best, FileChanges, Moment, Restored, VariableChanges, VariableList
from cloche.model.limits import Limits
from cloche.model.result import Result, Usage
from cloche.sandbox.facts import CheckpointFacts, ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cloche.blocking.sandbox.one_shot import Job
    from cloche.model.installs import FoundPackages, Install, InstalledPackage
    from cloche.model.network import Network, NetworkPolicy
    from cloche.model.network_attempt import NetworkAttempt
    from cloche.model.packages import Requirement
    from cloche.sandbox.checks import Data
    from cloche.sandbox.requests import CellRequest, Command, Program, SandboxRequest


class Place(Protocol):
    """A place that makes sandboxes."""

    takes_whole_jobs: bool  # whether the place runs a program, with its files and limits, in one request

    def sandbox(self, request: SandboxRequest, session: Session) -> Backend:
        """Return a sandbox, which is created when it is opened."""

    def one_shot(self, job: Job) -> Backend:
        """Return a sandbox for one program; the sandbox ends with the program."""

    def run(self, job: Job) -> Result:
        """Run a program without following its events, in one request; only for places that take whole jobs."""


class Block(Protocol):
    """An asynchronous `with` block."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Session(Protocol):
    """The operations that a backend may call in the front, which keeps the turns of the contexts."""

    def quiet(self) -> Block:
        """Return a `with` block in which nothing runs in any context."""

    def turn(self, context: str) -> Block:
        """Return a `with` block in which nothing else runs in one context."""

    def run_in(self, context: ContextFacts, code: str, timeout: float | None) -> Result:
        """Run a cell in a context, as the sandbox's owner would."""

    def refresh(self) -> None:
        """Read the lists of contexts and checkpoints from the backend."""


class Backend(Protocol):
    """One sandbox: its lifetime and its parts."""

    limits: Limits
    env: dict[str, str]
    wall: str
    paused: bool
    closed: bool
    id: str | None
    workspace: str | None
    metadata: Mapping[str, str]

    @property
    def files(self) -> FilesBackend:
        """The sandbox's files."""

    @property
    def ports(self) -> PortsBackend:
        """The servers inside the sandbox."""

    @property
    def network(self) -> NetworkBackend:
        """The sandbox's access to the network."""

    @property
    def packages(self) -> PackagesBackend:
        """The sandbox's packages."""

    @property
    def programs(self) -> ProgramsBackend:
        """The sandbox's programs and commands."""

    @property
    def sessions(self) -> SessionsBackend:
        """The sandbox's contexts and their cells."""

    @property
    def checkpoints(self) -> CheckpointsBackend:
        """The sandbox's checkpoints, branches and attempts."""

    def open(self) -> None:
        """Create the sandbox, or connect to an existing one."""

    def close(self) -> None:
        """End the sandbox and wait until it is removed; a sandbox that was only connected to lives on."""

    def kill(self) -> None:
        """End the sandbox, even one that was only connected to."""

    def let_go(self) -> None:
        """End the sandbox without waiting until it is removed."""

    def pause(self) -> None:
        """Stop all processes of the sandbox."""

    def resume(self) -> None:
        """Continue the processes of a paused sandbox."""

    def set_lifetime(self, seconds: float | None) -> None:
        """End the sandbox this many seconds from now; None: no deadline, or the latest that a server allows."""

    def usage(self) -> Usage:
        """Measure the resources that the sandbox uses now."""

    def ended(self) -> str:
        """Wait until the sandbox has ended; return the reason, as one word."""


class FilesBackend(Protocol):
    """The files of one sandbox."""

    def write(self, path: str, data: Data, mode: int | None, append: bool) -> Entry:
        """Write a file."""

    def writer(
        self,
        path: str,
        mode: int | None,
        append: bool,
        in_place: bool,
        attributes: dict[str, str] | None,
        expected: str | None,
    ) -> Writer:
        """Return a writer that writes a file piece by piece."""

    def reader(self, path: str, offset: int, length: int | None) -> Reader:
        """Return a reader that reads a file piece by piece."""

    def list(self, path: str, depth: int) -> Listing:
        """List a folder."""

    def stat(self, path: str) -> Entry:
        """Describe the entry at a path."""

    def mkdir(self, path: str) -> bool:
        """Make a folder; return False if it existed already."""

    def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move a file or folder."""

    def remove(self, path: str) -> None:
        """Remove a file or folder."""

    def watch(self, path: str, recursive: bool) -> Watcher:
        """Watch a folder."""

    def disk(self) -> dict[str, int]:
        """Measure the file system: total and free, in bytes and in files."""


class Reader(Protocol):
    """A file that is being read; a reader that is garbage-collected is closed."""

    is_over: bool

    def begin(self) -> int:
        """Open the file and return its size."""

    def next(self) -> bytes:
        """Wait for the next piece; `b""` at the end, and after `close`."""

    def close(self) -> None:
        """Stop reading."""


class Writer(Protocol):
    """A file that is being written; a writer that is garbage-collected is aborted."""

    is_over: bool

    def begin(self) -> None:
        """Send the request, unless that was done already."""

    def write(self, data: Data) -> None:
        """Send a piece; call `begin` first."""

    def finish(self) -> Entry:
        """Put the file in its place; call `begin` first."""

    def abort(self) -> None:
        """Discard the pieces, unless the file is finished."""


class Watcher(Protocol):
    """Changes in a folder."""

    def next_change(self, timeout: float | None) -> Change | None:
        """Wait for the next change; None if there is none in time, or when the sandbox has ended."""

    def drain(self) -> list[Change]:
        """Return all changes so far that were not returned yet."""

    def close(self) -> None:
        """Stop watching."""


class PortsBackend(Protocol):
    """Servers inside one sandbox."""

    def list(self) -> list[Port]:
        """List the ports on which servers listen."""

    def connect(self, port: int) -> Tunnel:
        """Connect to a server inside."""

    def wait(self, port: int, timeout: float | None) -> Port:
        """Wait until a server listens on this port; raise Gone if none does in time."""


class Tunnel(Protocol):
    """A connection to a server inside; a tunnel that is garbage-collected is closed."""

    def receive(self) -> bytes:
        """Wait for the next bytes; `b""` at the end."""

    def send(self, data: memoryview) -> None:
        """Send all of the data."""

    def send_eof(self) -> None:
        """End the sending direction."""

    def close(self) -> None:
        """Close the connection in both directions."""


class NetworkBackend(Protocol):
    """The access of one sandbox to the network."""

    def policy(self) -> NetworkPolicy:
        """The policy as it was requested, the bound on it, and the policy in force."""

    def replace(self, network: Network) -> NetworkPolicy:
        """Put another policy in force."""

    def log(self, since: int) -> list[NetworkAttempt]:
        """List the attempts with a number above this one, the oldest first."""


class PackagesBackend(Protocol):
    """The packages of one sandbox."""

    def install(self, requirements: Sequence[Requirement]) -> Install:
        """Install packages, all that they need included."""

    def list(self) -> list[InstalledPackage]:
        """List the packages that programs find."""

    def uninstall(self, names: Sequence[str], language: str) -> Sequence[str]:
        """Remove packages that were installed in the sandbox; return those that were there."""

    def search(self, text: str, language: str) -> FoundPackages:
        """Look for packages in the index."""


class ProgramsBackend(Protocol):
    """Programs and commands of one sandbox."""

    def run_program(self, program: Program, stdin: Data | None) -> Result:
        """Run a program to its end."""

    def start_program(self, program: Program, stdin: Data | None = None) -> ProcessBackend:
        """Start a program; `stdin` is its whole input, if that is known already."""

    def run_command(self, command: Command, stdin: Data | None) -> Result:
        """Run a command to its end."""

    def start_command(self, command: Command) -> ProcessBackend:
        """Start a command."""


class ProcessBackend(Protocol):
    """A running program; the front calls `advance` from one task at a time."""

    pid: int | None
    result: Result | None
    status: int | None
    is_output_cut: bool

    @property
    def is_building(self) -> bool:
        """Whether the program is still being built."""

    def advance(self) -> tuple[Event, ...]:
        """Wait until something happens, and return the resulting events, if any."""

    def feed(self, data: Data) -> None:
        """Set the whole standard input, which is sent while events are being taken."""

    def send_input(self, data: memoryview) -> memoryview:
        """Send some of the input and return the rest.  Input that the program will never read counts as sent."""

    def has_room(self) -> bool:
        """Return whether input can be sent now."""

    def await_room(self) -> bool:
        """Wait until input can be sent, without taking events; return False if the program has ended."""

    def close_stdin(self) -> None:
        """Close the standard input."""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""

    def signal(self, number: int) -> None:
        """Send a signal to the program."""

    def kill(self) -> None:
        """Kill the program and all processes that it has started."""

    def give_up(self) -> None:
        """Kill the program without waiting; its result is not wanted any more."""


class SessionsBackend(Protocol):
    """Contexts of one sandbox, and cells in them."""

    def cell(self, request: CellRequest) -> Cell:
        """Return a cell, which has not begun."""

    def create(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """Create a context."""

    def ensure(self, context: ContextFacts) -> None:
        """Register a default context in which no cell has run yet."""

    def remove(self, context: ContextFacts) -> None:
        """Remove a context for good."""

    def restart(self, context: str) -> None:
        """End a context's kernel."""

    def interrupt(self, context: str | None, cells: Sequence[Cell]) -> None:
        """Stop the code that runs in one context, or in all; `cells` are the cells that this process has started."""

    def list_variables(self, context: str, search: str, name: str) -> VariableList:
        """List the variables of a context whose names contain a text, or a single one with more of its value."""

    def history(self) -> list[Moment] | None:
        """Return the whole history; None means that the front's own notes are complete."""

    def list(self) -> list[ContextFacts]:
        """List all known contexts."""


class Cell(Protocol):
    """A running cell.  The task that takes its events also enforces its time limits and answers its calls of tools."""

    result: Result | None
    over: bool  # no code of the cell runs, or will run
    lost_before: bool  # the kernel has ended since the last cell whose result was reported

    def begin(self) -> None:
        """Send the request."""

    def feed(self, data: Data) -> None:
        """Set the whole standard input, which is sent while events are being taken."""

    def write(self, data: Data) -> None:
        """Write to the standard input."""

    def close_stdin(self) -> None:
        """Close the standard input."""

    def next_event(self) -> CellEvent | None:
        """Wait for the next event; None after the end."""

    def finish(self, stdin: Data | None) -> Result:
        """Send the input and wait for the end."""

    def interrupt(self) -> None:
        """Stop the cell; variables stay if the kernel can be interrupted."""

    def abandon(self) -> None:
        """Stop the cell from code that cannot await; its result is not wanted any more."""

    def is_neglected(self) -> bool:
        """Return whether the cell should end and no task is there to end it."""


class CheckpointsBackend(Protocol):
    """Checkpoints of one sandbox.  The front makes sure that no context runs code while one is taken or restored."""

    def take(self, name: str) -> CheckpointFacts:
        """Make a checkpoint; an old one without a name may be removed to make room."""

    def remember(self, quiet: Callable[[], Block]) -> None:
        """Make a checkpoint before a run that `undo` may take back, unless the backend makes one by itself."""

    def restore(self, checkpoint: str) -> Restored:
        """Bring variables and files back to their earlier state."""

    def undo(self) -> Restored:
        """Undo the last run."""

    def branch(self, checkpoint: str | None, source: ContextFacts, files: str) -> ContextFacts:
        """Create a context that continues from a checkpoint, or from the live variables of a context."""

    def remove(self, checkpoint: str) -> None:
        """Remove a checkpoint."""

    def list(self) -> list[CheckpointFacts]:
        """List all checkpoints, oldest first."""

    def attempt(self, source: ContextFacts, code: str, timeout: float | None) -> Trial:
        """Run code in a branch of a context, and return its changes."""

    def best_of(
        self,
        source: ContextFacts,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> Best:
        """Run candidates in branches of a context, and continue it as the best."""


class Trial(Protocol):
    """Code that has run in a branch, and waits to be kept or discarded."""

    result: Result
    files: FileChanges
    variables: VariableChanges

    def keep(self) -> None:
        """Continue the context as the branch."""

    def discard(self) -> None:
        """Bring variables and files back to their earlier state."""
