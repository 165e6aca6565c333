"""What a backend is: everything that the front asks of the place where a sandbox lives.

`engine/` fulfils these protocols on this host, `client/` on a server.  A third backend, say a cluster of nodes, is one
more place in places.py.  A backend gets arguments that are checked already.  Where an answer comes from inside a
sandbox, the backend does not trust it.
"""

from __future__ import annotations

from typing import Protocol

from cloche.model.events import CellEvent, Event
from cloche.model.files import Change, Entry, Listing, Port
from cloche.model.history import Best, FileChanges, Moment, Restored, VariableChanges
from cloche.model.limits import Limits
from cloche.model.result import Result, Usage
from cloche.sandbox.facts import CheckpointFacts, ContextFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cloche.sandbox.checks import Data
    from cloche.sandbox.one_shot import Job
    from cloche.sandbox.requests import CellRequest, Command, Program, SandboxRequest


class AsyncPlace(Protocol):
    """Where sandboxes are made."""

    takes_whole_jobs: bool  # can it run a program, with all that belongs to it, in one request?

    def sandbox(self, request: SandboxRequest, session: AsyncSession) -> AsyncBackend:
        """A sandbox, which is not created before it is opened."""

    def one_shot(self, job: Job) -> AsyncBackend:
        """A sandbox for one program, which ends with it."""

    async def run(self, job: Job) -> Result:
        """Run a program whose events are not wanted, in one request, if the place takes whole jobs."""


class AsyncBlock(Protocol):
    """Something to be used in a `with` block."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


class AsyncSession(Protocol):
    """What a backend may ask of the front: the turns of the contexts are kept there."""

    def quiet(self) -> AsyncBlock:
        """A `with` block in which nothing runs in any context."""

    def turn(self, context: str) -> AsyncBlock:
        """A `with` block in which nothing else runs in one context."""

    async def run_in(self, context: ContextFacts, code: str, timeout: float | None) -> Result:
        """Run a cell in a context, as the sandbox's owner would."""

    async def refresh(self) -> None:
        """Ask the backend which contexts and checkpoints there are."""


class AsyncBackend(Protocol):
    """One sandbox: its life, and its parts."""

    limits: Limits
    env: dict[str, str]
    wall: str
    paused: bool
    closed: bool
    id: str | None
    workspace: str | None
    metadata: Mapping[str, str]

    @property
    def files(self) -> AsyncFilesBackend:
        """Its files."""

    @property
    def ports(self) -> AsyncPortsBackend:
        """The servers inside."""

    @property
    def programs(self) -> AsyncProgramsBackend:
        """Programs and commands."""

    @property
    def sessions(self) -> AsyncSessionsBackend:
        """Contexts and their cells."""

    @property
    def checkpoints(self) -> AsyncCheckpointsBackend:
        """Checkpoints, branches and attempts."""

    async def open(self) -> None:
        """Create it, or find it."""

    async def close(self) -> None:
        """End it, and wait until nothing of it is left; one that was only found lives on."""

    async def kill(self) -> None:
        """End it, also one that was only found."""

    async def let_go(self) -> None:
        """End it without waiting until nothing of it is left."""

    async def pause(self) -> None:
        """Stop all its processes."""

    async def resume(self) -> None:
        """Let its processes go on."""

    async def set_lifetime(self, seconds: float | None) -> None:
        """Have it end by itself so long from now."""

    async def usage(self) -> Usage:
        """What it uses now."""

    async def ended(self) -> str:
        """Wait until it has ended; the reason, in a word."""


class AsyncFilesBackend(Protocol):
    """The files of one sandbox."""

    async def write(self, path: str, data: Data, mode: int | None, append: bool) -> Entry:
        """Write a file."""

    def writer(
        self, path: str, mode: int | None, append: bool, in_place: bool, attributes: dict[str, str] | None
    ) -> AsyncWriter:
        """Write a file piece by piece."""

    def reader(self, path: str, offset: int, length: int | None) -> AsyncReader:
        """Read a file piece by piece."""

    async def list(self, path: str, depth: int) -> Listing:
        """List a folder."""

    async def stat(self, path: str) -> Entry:
        """Describe what is at a path."""

    async def mkdir(self, path: str) -> bool:
        """Make a folder; False when it was there."""

    async def rename(self, path: str, new_path: str) -> Entry:
        """Rename or move."""

    async def remove(self, path: str) -> None:
        """Remove a file or folder."""

    async def watch(self, path: str, recursive: bool) -> AsyncWatcher:
        """Watch a folder."""

    async def disk(self) -> dict[str, int]:
        """Total and free, in bytes and in files."""


class AsyncReader(Protocol):
    """A file on its way out; one that is forgotten is closed."""

    is_over: bool

    async def begin(self) -> int:
        """Open the file; its size."""

    async def next(self) -> bytes:
        """The next piece; `b""` at the end, and when it is closed."""

    async def close(self) -> None:
        """Read no further."""


class AsyncWriter(Protocol):
    """A file on its way in; one that is forgotten is aborted."""

    is_over: bool

    async def begin(self) -> None:
        """Ask for it, unless that was done."""

    async def write(self, data: Data) -> None:
        """Send a piece, after `begin`."""

    async def finish(self) -> Entry:
        """Put the file in its place, after `begin`."""

    async def abort(self) -> None:
        """Throw the pieces away, unless it is over."""


class AsyncWatcher(Protocol):
    """Changes in a folder."""

    async def next_change(self, timeout: float | None) -> Change | None:
        """The next change; None when there is none in time, or the sandbox has ended."""

    async def drain(self) -> list[Change]:
        """All changes so far that were not returned yet."""

    async def close(self) -> None:
        """Stop watching."""


class AsyncPortsBackend(Protocol):
    """Servers inside one sandbox."""

    async def list(self) -> list[Port]:
        """The ports on which something listens."""

    async def connect(self, port: int) -> AsyncTunnel:
        """Connect to one."""

    async def wait(self, port: int, timeout: float | None) -> Port:
        """Wait for a server; Gone when none comes in time."""


class AsyncTunnel(Protocol):
    """A connection to a server inside; one that is forgotten is closed."""

    async def receive(self) -> bytes:
        """The next bytes; `b""` at the end."""

    async def send(self, data: memoryview) -> None:
        """Send all of it."""

    async def send_eof(self) -> None:
        """Nothing more is sent."""

    async def close(self) -> None:
        """Close it in both directions."""


class AsyncProgramsBackend(Protocol):
    """Programs and commands of one sandbox."""

    async def run_program(self, program: Program, stdin: Data | None) -> Result:
        """Run a program to its end."""

    async def start_program(self, program: Program, stdin: Data | None = None) -> AsyncProcessBackend:
        """Start a program; `stdin` is all of its input, if it is known already."""

    async def run_command(self, command: Command, stdin: Data | None) -> Result:
        """Run a command to its end."""

    async def start_command(self, command: Command) -> AsyncProcessBackend:
        """Start a command."""


class AsyncProcessBackend(Protocol):
    """A program under way; the front calls `advance` from one task at a time."""

    pid: int | None
    result: Result | None
    status: int | None
    is_output_cut: bool

    @property
    def is_building(self) -> bool:
        """Is it being built, and does not run yet?"""

    async def advance(self) -> tuple[Event, ...]:
        """Wait for the next thing that happens; the events that come of it, if any."""

    async def feed(self, data: Data) -> None:
        """All of its standard input; sent while its events are taken."""

    async def send_input(self, data: memoryview) -> memoryview:
        """Send some of the input; the rest.  Input that will never be read counts as sent."""

    def has_room(self) -> bool:
        """Can input be sent now?"""

    async def await_room(self) -> bool:
        """Wait until input can be sent, without taking events; False when it has ended."""

    async def close_stdin(self) -> None:
        """Close its standard input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Change the size of its terminal."""

    async def signal(self, number: int) -> None:
        """Send it a signal."""

    async def kill(self) -> None:
        """Kill it, with everything that it has started."""

    async def give_up(self) -> None:
        """Kill the program without waiting; its result is not wanted any more."""


class AsyncSessionsBackend(Protocol):
    """Contexts of one sandbox, and cells in them."""

    def cell(self, request: CellRequest) -> AsyncCell:
        """A cell, which has not begun."""

    async def create(self, language: str, cwd: str | None, env: dict[str, str]) -> ContextFacts:
        """A new context."""

    async def ensure(self, context: ContextFacts) -> None:
        """Have a default context known though no cell has run in it."""

    async def remove(self, context: ContextFacts) -> None:
        """End a context for good."""

    async def restart(self, context: str) -> None:
        """End a context's kernel."""

    async def interrupt(self, context: str | None, cells: Sequence[AsyncCell]) -> None:
        """Stop what runs in one context, or in all; `cells` are those of this process."""

    async def history(self) -> list[Moment] | None:
        """All that has happened; None: exactly what the front has noted."""

    async def list(self) -> list[ContextFacts]:
        """All contexts that are known."""


class AsyncCell(Protocol):
    """A cell under way.  Whoever takes its events also carries it on: time limits, calls of tools."""

    result: Result | None
    over: bool  # nothing of it runs, or ever will
    lost_before: bool  # the kernel has ended since the last cell that anybody heard of

    async def begin(self) -> None:
        """Ask for it."""

    async def feed(self, data: Data) -> None:
        """All of its standard input; sent while its events are taken."""

    async def write(self, data: Data) -> None:
        """More of its standard input."""

    async def close_stdin(self) -> None:
        """Close its standard input."""

    async def next_event(self) -> CellEvent | None:
        """The next event; None after the end."""

    async def finish(self, stdin: Data | None) -> Result:
        """Give it its input, and wait for its end."""

    async def interrupt(self) -> None:
        """Stop it; its variables stay, if it can."""

    def abandon(self) -> None:
        """Stop the cell where nothing can be awaited; its result is not wanted any more."""

    def is_neglected(self) -> bool:
        """Return whether the cell should end and no task is there to end it."""


class AsyncCheckpointsBackend(Protocol):
    """Checkpoints of one sandbox.  Nothing runs in any context while one is taken or restored: the front sees to it."""

    async def take(self, name: str) -> CheckpointFacts:
        """Make a checkpoint; an old one without a name may have to go for it."""

    async def remember(self, quiet: Callable[[], AsyncBlock]) -> None:
        """Before a run that `undo` may take back: make a checkpoint, unless that happens by itself."""

    async def restore(self, checkpoint: str) -> Restored:
        """Make variables and files what they were."""

    async def undo(self) -> Restored:
        """Go back to before the last run."""

    async def branch(self, checkpoint: str | None, source: ContextFacts, files: str) -> ContextFacts:
        """A new context that goes on from a checkpoint, or from the live variables of a context."""

    async def remove(self, checkpoint: str) -> None:
        """Forget a checkpoint."""

    async def list(self) -> list[CheckpointFacts]:
        """All checkpoints, oldest first."""

    async def attempt(self, source: ContextFacts, code: str, timeout: float | None) -> AsyncTrial:
        """Run code in a branch of a context, and see what it changes."""

    async def best_of(
        self,
        source: ContextFacts,
        candidates: Sequence[str],
        score: str | Callable[[Result], float],
        timeout: float | None,
    ) -> Best:
        """Run candidates in branches of a context, and let it go on as the best."""


class AsyncTrial(Protocol):
    """Code that has run in a branch, and waits to be kept or discarded."""

    result: Result
    files: FileChanges
    variables: VariableChanges

    async def keep(self) -> None:
        """Let the context go on as the branch."""

    async def discard(self) -> None:
        """Make variables and files what they were."""
