# Generated from src/cloche/sandbox/processes.py by scripts/blocking.py: edit that file instead.
"""A running program.  Several tasks may read its events, write to it and wait for it at the same time."""

from __future__ import annotations

from _collections import deque  # type: ignore[import-not-found]  # `collections` takes two milliseconds to import

from cloche.blocking.io.tasks import Condition
from cloche.errors import Gone
from cloche.model.events import Output, Waiting
from cloche.sandbox.checks import checked_data, checked_size, signal_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _collections_abc import Callable

    from cloche.blocking.sandbox.backend import ProcessBackend
    from cloche.model.events import Event
    from cloche.model.result import Result
    from cloche.sandbox.checks import Data

_PIECE = 16 << 10  # bytes of output that are joined into one event while no task reads events


class Process:
    """A running program in a sandbox.

    Iterate over it to get its events; `wait` for its result.  Its output is kept up to the output limit, so you can do
    both.
    """

    def __init__(self, backend: ProcessBackend) -> None:
        self._backend = backend
        self._turn = Condition()
        self._taking = False  # a task waits for the next event, on behalf of all
        self._missed: deque[Event] = deque()  # events that arrived while a task waited for something else
        self.is_followed = False  # a task takes its events all the time, so a writer need not

    @property
    def result(self) -> Result | None:
        """The result, once the program has ended."""
        return self._backend.result

    @property
    def status(self) -> int | None:
        """After the end: the exit code, or minus the signal's number; None if the program ended with its sandbox."""
        return self._backend.status

    @property
    def is_building(self) -> bool:
        """Whether the program is still being built."""
        return self._backend.is_building

    @property
    def has_begun(self) -> bool:
        """Whether the program has been started."""
        return self._backend.pid is not None

    @property
    def pid(self) -> int:
        """The process id inside the sandbox."""
        if self._backend.pid is None:
            raise Gone("The process has not been started.")
        return self._backend.pid

    def started(self) -> None:
        """Wait until the program runs or is being built; its output is kept meanwhile."""
        with self._turn:
            while self._backend.pid is None and self.result is None and not self.is_building:
                self._step(listening=False)

    def next_event(self) -> Event | None:
        """Wait for the next event; None after the end."""
        with self._turn:
            while not self._missed and self.result is None:
                self._step(listening=True)
            return self._missed.popleft() if self._missed else None

    def wait(self) -> Result:
        """Wait for the end.  Events are kept, up to the output limit, for a task that iterates over them."""
        with self._turn:
            while self.result is None:
                self._step(listening=False)
        return self.result

    def finish(self, stdin: Data | None, on_event: Callable[[Event], None] | None = None) -> Result:
        """Send all input and wait for the end; `on_event` gets each event, so no other task may read events."""
        try:
            if stdin is not None:
                self.feed(stdin)
            while (event := self.next_event()) is not None:
                if on_event is not None:
                    on_event(event)
        except BaseException:  # interrupted: no task will want the result any more, so the program must not go on
            self.give_up()
            raise
        assert self.result is not None
        return self.result

    def feed(self, data: Data) -> None:
        """Send the whole standard input, as fast as the program reads it, while its events are being read."""
        self._backend.feed(data)

    def write(self, data: str | Data) -> None:
        """Write to the standard input.  Waits while the program does not read; drops input that it can never read."""
        rest = memoryview(checked_data("input", data))
        while rest and self.result is None:
            rest = self._backend.send_input(rest)
            if not rest:
                return
            if self.is_followed:
                if not self._backend.await_room():
                    return  # the program has ended
            else:
                with self._turn:
                    if self.result is None and not self._backend.has_room():
                        self._step(listening=False)

    def close_stdin(self) -> None:
        """Close the standard input."""
        self._backend.close_stdin()

    def resize(self, columns: int | tuple[int, int], rows: int | None = None) -> None:
        """Change the size of the terminal: `resize(80, 24)`, or `resize((80, 24))` as for `size=`."""
        size = columns if isinstance(columns, tuple) and rows is None else (columns, rows)
        self._backend.resize(*checked_size(size))

    def signal(self, number: int | str) -> None:
        """Send a signal to the program, by number or by name."""
        self._backend.signal(signal_number(number))

    def kill(self) -> None:
        """Kill the program and all processes that it has started; `wait` still returns its result."""
        self._backend.kill()

    def give_up(self) -> None:
        """End the program without waiting, because its result is not wanted any more."""
        self._backend.give_up()

    def _forget(self) -> None:
        """Give up the result, which nobody wants any more."""
        self._missed.clear()
        self._backend.result = None

    def __iter__(self) -> Process:
        return self

    def __next__(self) -> Event:
        event = self.next_event()
        if event is None:
            raise StopIteration
        return event

    def _step(self, listening: bool) -> None:
        """Take the next events, or wait until another task has.  The caller must have the turn.

        Events are kept for a task that reads them.  Unless one does (`listening`), output past the limit is dropped.
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
        if isinstance(event, Waiting) and not self.is_followed:
            return  # a caller who reads events now and then could not rely on it
        last = self._missed[-1] if self._missed else None
        small = isinstance(last, Output) and len(last.data) < _PIECE
        if small and isinstance(event, Output) and isinstance(last, Output) and last.kind == event.kind:
            self._missed[-1] = Output(event.kind, last.data + event.data)  # many small events would cost too much
        else:
            self._missed.append(event)
