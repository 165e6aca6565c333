"""`cloche logs`: prints what has run in a sandbox on a server, with its output, and follows it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from queue import SimpleQueue
    from typing import Any

    from cloche.blocking.client.sandboxes import SandboxOnServer, ServerSandboxes, Work
    from cloche.model.result import Result

    News = tuple[Work | None, bytes, str]  # None: the sandbox has ended; output, or how the work ended

_MOST_FOLLOWED = 32  # runs and commands at once: each is a stream of its own, of which a key may have a few hundred
_LONGEST = 100  # characters of a command that are shown


def add(commands: Any, shape: dict[str, Any]) -> None:
    from cloche.cli import servers

    parser = commands.add_parser(
        "logs",
        help="show what has run in a sandbox on a server",
        description="Prints the runs and commands of a sandbox with their output, the oldest first.  Of a sandbox that "
        "has ended, the server still has the runs.",
        **shape,
    )
    parser.add_argument("sandbox", metavar="SANDBOX", help="id, the beginning of an id, or name")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the sandbox ends")
    servers.add_options(parser)


def main(arguments: argparse.Namespace) -> int:
    from cloche.cli import servers

    place = servers.sandboxes(arguments)
    box = place.find(arguments.sandbox, living=False)
    if arguments.follow and box.state == "alive":
        _Follower(place, box).run()
        return 0
    past = place.work(box.id)
    for work in past:
        _print_whole(place, box, work)
    if not past:
        _print_line(f"nothing has run in this sandbox{' yet' if box.state == 'alive' else ''}")
    return 0


class _Follower:
    """Follows everything in one sandbox: a thread for its events, and one for each run or command."""

    def __init__(self, place: ServerSandboxes, box: SandboxOnServer) -> None:
        from queue import SimpleQueue

        self._place, self._box = place, box
        self._news: SimpleQueue[News | Exception] = SimpleQueue()
        self._known: set[str] = set()
        self._followed = 0
        self._shown = ""  # the id of the work whose output was printed last
        self._end = ""  # how the sandbox has ended

    def run(self) -> None:
        """Print until the sandbox ends."""
        from _thread import start_new_thread

        notices = self._place.notices(self._box.id)  # before the list: nothing may start between the two
        for past in self._place.work(self._box.id):
            if past.is_over:
                self._known.add(past.id)
                _print_whole(self._place, self._box, past)
        self._start_missing()
        start_new_thread(self._watch, (notices,))
        while not self._end or self._followed:
            news = self._news.get()
            if isinstance(news, Exception):
                raise news
            work, output, end = news
            if work is None and not end:
                self._start_missing()
            elif work is None:
                self._end = end  # what ended with it reports that in its own events
            else:
                self._print(work, output, end)
        _print_line(self._end)

    def _print(self, work: Work, output: bytes, end: str) -> None:
        if self._shown != work.id:
            self._shown = work.id
            _print_head(work)
        _print_output(output, ends=bool(end))
        if end:
            self._followed -= 1
            self._shown = ""
            _print_line(end)
            if not self._end:
                self._start_missing()

    def _start_missing(self) -> None:
        """Follow the work that is new; as much of it as may be followed at once."""
        from _thread import start_new_thread

        for work in self._place.work(self._box.id):
            if work.id not in self._known and self._followed < _MOST_FOLLOWED:
                self._known.add(work.id)
                self._followed += 1
                start_new_thread(self._follow, (work,))

    def _watch(self, notices: Any) -> None:
        from cloche.errors import ClocheError, Gone

        try:
            while (event := notices.next()) is not None:
                kind, _ = event
                if kind == "sandbox.ended":
                    break
                if kind in ("run.started", "command.started"):
                    self._news.put((None, b"", ""))
        except Gone:
            pass  # it has ended
        except ClocheError as problem:
            self._news.put(problem)
            return
        self._news.put((None, b"", "the sandbox has ended"))

    def _follow(self, work: Work) -> None:
        from cloche.client import shapes
        from cloche.errors import ClocheError
        from cloche.model.events import End, Exit, Failed, Output, Shown

        feed, has_printed = self._place.events(self._box.id, work), False
        try:
            while (found := feed.next()) is not None:
                event = (shapes.cell_event if work.kind == "run" else shapes.command_event)(*found)
                if isinstance(event, Exit | End):
                    self._news.put((work, b"", _outcome(event.result)))
                    return
                data = b""
                if isinstance(event, Output):
                    data = event.data
                elif isinstance(event, Shown):
                    data = _encoded(event.result.text)
                elif isinstance(event, Failed):
                    data = _encoded(event.error.traceback or event.error.message)
                if data:
                    has_printed = True
                    self._news.put((work, data, ""))
        except ClocheError:
            pass  # the server has forgotten its events: its result is what is left
        finally:
            feed.close()
        try:
            result = self._place.result(self._box.id, work)
        except ClocheError as problem:
            self._news.put(problem)
            return
        if result is None:
            self._news.put((work, b"", "the server has forgotten its output"))
        else:
            self._news.put((work, b"" if has_printed else _output_of(result), _outcome(result)))


def _print_whole(place: ServerSandboxes, box: SandboxOnServer, work: Work) -> None:
    """Print what the server has of a run or command."""
    _print_head(work)
    result = place.result(box.id, work)
    if result is None:
        _print_line("the server has forgotten its output" if work.is_over else "it still runs: -f follows it")
    else:
        _print_output(_output_of(result))
        _print_line(_outcome(result))


def _print_head(work: Work) -> None:
    from time import localtime, strftime

    from cloche.cli.printable import printable

    when = strftime("%H:%M:%S", localtime(work.started))
    what = printable(work.words, _LONGEST) if work.kind == "run" else f"$ {printable(work.words, _LONGEST)}"
    _print_line(f"{when}  {work.id[:20]}  {what}")


def _print_line(text: str) -> None:
    """Print a line of ours: in grey on a terminal, where it differs from output."""
    sys.stdout.flush()
    is_shown = sys.stdout.isatty()
    print(f"\x1b[2m── {text}\x1b[0m" if is_shown else f"── {text}", flush=True)


def _print_output(output: bytes, *, ends: bool = True) -> None:
    """Print a program's output as it is; `ends`: the next line is ours."""
    sys.stdout.buffer.write(output)
    if ends and output and not output.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def _output_of(result: Result) -> bytes:
    """What a run has printed and shown, and the error that ended it."""
    shown = b"".join(_encoded(each.text) for each in result.results)
    failed = _encoded(result.error.traceback or "") if result.error is not None else b""
    return (
        result.stdout_bytes + shown + (b"" if failed.strip() in result.stderr_bytes else failed) + result.stderr_bytes
    )


def _encoded(text: str) -> bytes:
    """A text as a line of output."""
    return text.rstrip("\n").encode("utf-8", "surrogateescape") + b"\n" if text else b""


def _outcome(result: Result) -> str:
    from cloche.results.values import seconds

    error = "" if result.error is None or result.error.kind == "exit" else f"{result.error.kind}, "
    return f"{error}exit code {result.exit_code}, {seconds(result.duration)}"
