# Generated from src/cloche/sandbox/processes.py by scripts/blocking.py: edit that file instead.
"""A program under way: several may listen to it, write to it and wait for it at the same time."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import

from cloche.blocking.io.tasks import Condition
from cloche.errors import Gone
from cloche.model.events import Output
from cloche.sandbox.checks import checked_data, checked_size, signal_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Callable

    from cloche.blocking.sandbox.backend import ProcessBackend
    from cloche.model.events import Event
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data

_PIECE = 16 << 10  # bytes of output that are kept as one event, while nobody listens


class Process:
    """A program under way in a sandbox.

    Iterate over it for its events; `wait` for its result.  Its output is kept up to the output limit, so both can be
    done.
    """

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        self._turn = Condition()
        self._taking = False  # somebody waits for the next event, on behalf of all
        self._missed: deque[Event] = deque()  # events that came while somebody waited for something else
        self.is_followed = False  # somebody takes its events all the while, so a writer need not

    @property
    def result(self) -> Result | None:
        """Its result, once it has ended."""
        return self._backend.result

    @property
    def status(self) -> int | None:
        """Once it has ended: its exit code, or minus the number of the signal; None if it ended with its sandbox."""
        return self._backend.status

    @property
    def is_building(self) -> bool:
        """Is it being built, and does not run yet?"""
        return self._backend.is_building

    @property
    def has_begun(self) -> bool:
        """Does it run, or has it?"""
        return self._backend.pid is not None

    @property
    def pid(self) -> int:
        """Its process id inside the sandbox."""
        if self._backend.pid is None:
            raise Gone("The process has not been started.")
        return self._backend.pid

    def started(self) -> None:
        """Wait until it runs, or is being built; its output is kept meanwhile."""
        with self._turn:
            while self._backend.pid is None and self.result is None and not self.is_building:
                self._step(listening=False)

    def next_event(self) -> Event | None:
        """The next event; None after the end."""
        with self._turn:
            while not self._missed and self.result is None:
                self._step(listening=True)
            return self._missed.popleft() if self._missed else None

    def wait(self) -> Result:
        """Wait for its end; its events are kept for whoever iterates over them, up to the output limit."""
        with self._turn:
            while self.result is None:
                self._step(listening=False)
        return self.result

    def finish(self, stdin: Data | None, tell: Callable[[Event], None] | None = None) -> Result:
        """Give it all its input, and wait for its end; `tell` gets each event, and nobody else listens."""
        try:
            if stdin is not None:
                self.feed(stdin)
            while (event := self.next_event()) is not None:
                if tell is not None:
                    tell(event)
        except BaseException:  # interrupted: nobody will ask for it any more, so it shall not go on
            self.give_up()
            raise
        assert self.result is not None
        return self.result

    def feed(self, data: Data) -> None:
        """Send all of its standard input, as fast as it takes it, while its events are taken."""
        self._backend.feed(data)

    def write(self, data: str | Data) -> None:
        """Write to its standard input; waits while it does not read, and drops input that it will never read."""
        rest = memoryview(checked_data("input", data))
        while rest and self.result is None:
            rest = self._backend.send_input(rest)
            if not rest:
                return
            if self.is_followed:
                if not self._backend.await_room():
                    return  # it has ended
            else:
                with self._turn:
                    if self.result is None and not self._backend.has_room():
                        self._step(listening=False)

    def close_stdin(self) -> None:
        """Close its standard input."""
        self._backend.close_stdin()

    def resize(self, columns: int | tuple[int, int], rows: int | None = None) -> None:
        """Change the size of its terminal: `resize(80, 24)`, or `resize((80, 24))` as for `size=`."""
        size = columns if isinstance(columns, tuple) and rows is None else (columns, rows)
        self._backend.resize(*checked_size(size))

    def signal(self, number: int | str) -> None:
        """Send it a signal, by number or by name."""
        self._backend.signal(signal_number(number))

    def kill(self) -> None:
        """Kill it, with everything that it has started; `wait` still tells how it ended."""
        self._backend.kill()

    def give_up(self) -> None:
        """End it without waiting: nobody will ask for it any more."""
        self._backend.give_up()

    def __iter__(self) -> Process:
        return self

    def __next__(self) -> Event:
        event = self.next_event()
        if event is None:
            raise StopIteration
        return event

    def _step(self, listening: bool) -> None:
        """With the turn: take the next events, or wait until somebody has; they are kept for whoever listens.

        When nobody listens, output past the limit is dropped.
        """
        if self._taking:
            self._turn.wait_for_change(None)
            return
        self._taking = True
        self._turn.release()
        happened: tuple[Event, ...] = ()
        try:
            happened = self._backend.advance()
        finally:
            self._turn.acquire()
            self._taking = False
            self._turn.notify_all()
        for event in happened:
            if listening or not self._backend.is_output_cut or not isinstance(event, Output):
                self._note(event)

    def _note(self, event: Event) -> None:
        last = self._missed[-1] if self._missed else None
        small = isinstance(last, Output) and len(last.data) < _PIECE
        if small and isinstance(event, Output) and isinstance(last, Output) and last.kind == event.kind:
            self._missed[-1] = Output(event.kind, last.data + event.data)  # one by one they would cost too much
        else:
            self._missed.append(event)
