"""Attaches a running program to the caller: its output, standard input, signals and the size of the terminal."""

from __future__ import annotations

import os
import sys

from cloche.model.events import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.blocking.sandbox.processes import Process
    from cloche.cli.terminal import CallersTerminal
    from cloche.model.events import Event

_INTERRUPTED = 130  # the exit code, as a shell has it


def feed(process: Process) -> None:
    """Pass our standard input on to the program, until it ends."""
    from _thread import start_new_thread  # `threading` takes longer to import than a program to run

    def pass_on() -> None:
        from cloche.errors import ClocheError

        try:
            while data := os.read(0, 64 << 10):
                process.write(data)
            process.close_stdin()
        except (OSError, ClocheError):
            pass  # our input is closed, or the program has ended

    start_new_thread(pass_on, ())


def show_output(event: Event) -> None:
    """Pass its output on, as it happens."""
    if isinstance(event, Output):
        stream = (sys.stdout if event.kind == "stdout" else sys.stderr).buffer
        stream.write(event.data)
        stream.flush()


def pass_interrupts_on(process: Process, let_go: Callable[[], None], terminal: CallersTerminal | None) -> None:
    """The first Ctrl-C is for the program; at the second we end its sandbox, and leave.  A terminal may be resized.

    A thread hears of them.  As an exception one would come in the middle of whatever holds a lock just now, or not at
    all: right before we begin to wait, it would not be seen until that is over.
    """
    from _signal import (  # type: ignore[import-not-found]
        SIGINT,
        SIGTERM,
        SIGWINCH,
        default_int_handler,
        getsignal,
        set_wakeup_fd,
        signal,
    )
    from _thread import start_new_thread

    heard = [SIGINT] if getsignal(SIGINT) is default_int_handler else []  # else our starter wants it ignored
    if terminal is not None:
        heard += [SIGWINCH, SIGTERM]
    if not heard:
        return
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)

    def listen() -> None:
        from cloche.errors import ClocheError

        interrupts = 0
        while interrupts < 2:
            number = os.read(reading, 1)[0]
            try:
                if number == SIGWINCH and terminal is not None:
                    terminal.resized(process)
                    continue
                interrupts += 1 if number == SIGINT else 2
                if interrupts == 1:
                    process.signal("SIGINT")
                else:
                    let_go()
            except (OSError, ClocheError):
                pass  # it is over already
        if terminal is not None:
            terminal.end()
        os._exit(_INTERRUPTED if number == SIGINT else 128 + number)

    set_wakeup_fd(writing)
    for number in heard:
        signal(number, lambda *_: None)
    start_new_thread(listen, ())
