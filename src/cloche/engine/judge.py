"""Decides why a program failed: turns the facts into a kind of error, a message, and advice."""

from __future__ import annotations

from cloche.model.limits import Limits
from cloche.model.plain import Plain
from cloche.model.result import Diagnostic, Error, Raised

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

# Messages of programs that could not start another process or thread, for hosts where no control group counts them.
_NO_MORE_PROCESSES = (
    "can't start new thread",
    "BlockingIOError: [Errno 11] Resource temporarily unavailable",
    "fork: retry: Resource temporarily unavailable",
    "fork: Resource temporarily unavailable",
    "Cannot fork",
)
# Last messages of programs that ran out of memory without an exception: C libraries, Bash, Ruby, Tcl and Java.
_NO_MORE_MEMORY = (
    "Cannot allocate memory",
    "alloc: cannot allocate ",
    "failed to allocate memory",
    "out of memory",
    "insufficient memory for the Java Runtime Environment",
)
_AT_THE_END = 2000  # characters of standard error in which these messages count
SYNTAX = ("SyntaxError", "IndentationError", "TabError")
_HEADER = "Traceback (most recent call last):"
_GROUP = f"  + Exception Group {_HEADER}"
# A traceback that begins after output without a newline.  Its frames show that it is not a quotation.
_TELLING = r"Traceback \(most recent call last\):\n  "
_WITHIN_A_LINE = rf'(?<=[^\n])({_TELLING}File "|  \+ Exception Group {_TELLING}\| )'
_MAX_HEADERS = 32  # headers that are tried: a program can print thousands, and other tasks wait meanwhile
# The end of a traceback: the exception's class, with its module unless it is a builtin, and its message.
_RAISED = r"^([^\W\d][\w.<>]*)(?:: (.*))?$"
_COLOURS = r"\x1b\[[\d;]*m"  # a program that resets the colours of a stream has said nothing there
_SIGINT = 2
_SIGABRT = 6  # programs in C, C++ and others end with it after an error that their language explains
_REPORT = 5  # lines at the end of standard error in which unittest sums up its findings
TAIL = 256 << 10  # bytes of standard error that are searched for a traceback
STDOUT_TAIL = 4096  # bytes of standard output that are searched for a reason


class Facts(Plain):
    """The facts about a program that has ended."""

    exit_code: int  # a negative number is the signal
    stderr_tail: str = ""
    stdout_tail: str = ""  # of a program that failed; matters if standard error says nothing
    timed_out: bool = False
    output_cut: bool = False
    lost: bool = False
    reason: str = ""  # why the wall ended the sandbox, if it did
    oom_kills: int = 0
    processes_refused: int = 0
    disk_free: int | None = None
    inodes_free: int | None = None
    is_python: bool = False
    refused: tuple[str, ...] = ()  # system calls that the wall refused during the run
    explained: Traceback | None = None  # the language's explanation of the standard error
    is_syntax: bool = False  # the explanation says that the program never began


def judge(facts: Facts, limits: Limits) -> Error | None:
    """Return the error, or None for a success."""
    if facts.timed_out or facts.reason == "timeout":
        return Error(
            "timeout",
            f"The program was stopped after {seconds(limits.timeout_s)}." if limits.timeout_s else "Time is up.",
            "Make it do less, look for an endless loop or a wait for input, or allow more time with timeout=.",
        )
    if facts.reason == "memory" or (facts.oom_kills and facts.exit_code != 0):
        return _memory(limits)
    if facts.output_cut:
        return Error(
            "output",
            f"The program was stopped after printing more than {size(limits.output_bytes)}.",
            "Print a summary, or write the data to a file under /sandbox/output instead.",
        )
    if facts.reason == "closed":
        return Error("killed", "The sandbox was closed while the program ran.", "Run it again in a new sandbox.")
    if facts.lost:
        return Error(
            "lost", "The sandbox ended before the program did.", "Run it again in a new sandbox; its files are gone."
        )
    if facts.exit_code == 0:
        return None
    # Python exits with these codes after an exception (120: its last output could not be written either).  With another
    # code, a traceback that it printed earlier is not the reason for its end.
    failed = facts.is_python and facts.exit_code in (1, 120, -_SIGINT)
    trace = facts.explained or (find_traceback(facts.stderr_tail) if failed else None)
    if is_out_of_memory(trace) if trace is not None else _says_no_memory(facts.stderr_tail):
        return _memory(limits, trace)
    if _disk_full(facts):
        what = "files" if facts.inodes_free == 0 else "disk space"
        return _with(
            trace,
            "disk",
            f"The sandbox is out of {what}; its disk holds {size(limits.disk_bytes)}.",
            "Delete files that are no longer needed, write less, or allow more with disk=.",
        )
    if facts.processes_refused or any(sign in facts.stderr_tail for sign in _NO_MORE_PROCESSES):
        return _with(
            trace,
            "processes",
            f"The program tried to have more than {limits.processes} processes and threads at once.",
            "Start fewer processes or threads, wait for the earlier ones, or allow more with processes=.",
        )
    if facts.refused and _not_permitted(facts):
        calls = ", ".join(facts.refused)
        return _with(
            trace,
            "policy",
            f"The sandbox does not allow the system call {calls}.",
            "Do it without that: a sandbox cannot mount, trace pid 1, load kernel code, unshare or open raw sockets.",
        )
    if facts.exit_code < 0 and (facts.explained is None or facts.exit_code != -_SIGABRT):
        return killed(-facts.exit_code, trace)
    if trace is None:
        return Error(
            "exit",
            f"The program ended with exit code {facts.exit_code}.",
            exit_advice(facts.stderr_tail, facts.stdout_tail),
            raised=last_complaint(facts.stderr_tail),
        )
    if facts.is_syntax or (trace.name in SYNTAX and trace is not facts.explained):
        return _with(trace, "syntax", trace.message, "Correct the line that the message points at and run it again.")
    return _with(trace, "runtime", trace.message, advice(trace, facts.stderr_tail))


class Traceback(Plain):
    """A traceback as it was printed."""

    name: str
    message: str
    text: str


def find_traceback(stderr: str) -> Traceback | None:
    """Find the traceback at the end of standard error, if there is one."""
    from re import sub  # imported late: a cold `cloche run` that succeeds does not need it

    lines = sub(_WITHIN_A_LINE, r"\n\1", stderr).split("\n")
    if any(line.startswith("Ran ") and " test" in line for line in lines[-_REPORT:]):
        return None  # a report by unittest: the exceptions that it quotes were caught
    headers = [number for number, line in enumerate(lines) if line.startswith((_HEADER, _GROUP))]
    for start in reversed(headers[-_MAX_HEADERS:]):
        raised = _raised_by(lines, start)
        if raised is not None:
            first = _first_of_chain(lines, start)
            return Traceback(raised.group(1), raised.group(2) or "", "\n".join(lines[first:]))
    return _find_syntax_error(lines)


def _raised_by(lines: list[str], start: int) -> Match[str] | None:
    """Find the exception and its message, which may have several lines, after the frames of a traceback."""
    body = lines[start + 1 :]
    if lines[start].startswith(_GROUP):
        end = next((n for n, line in enumerate(body) if line.startswith("  +-+-")), len(body))
        body = [line.removeprefix("  | ") for line in body[:end]]
    elif body[-1:] == [""]:
        body.pop()
    last = next((n for n, line in enumerate(body) if line and not line.startswith(" ")), len(body))
    return _exception("\n".join(body[last:]))


def _exception(text: str) -> Match[str] | None:
    from re import DOTALL, match

    return match(_RAISED, text, DOTALL)


def _first_of_chain(lines: list[str], start: int) -> int:
    """Return the line where the first traceback of a chain of exceptions begins."""
    while start > 0:
        if lines[start - 1] == '"""' and start > 1:  # a traceback from another process, quoted in a message
            start -= 2
        before = [line for line in lines[max(0, start - 3) : start] if line]
        if not before or not before[-1].startswith(
            ("During handling of the above exception", "The above exception was the direct cause")
        ):
            break
        start = next((n for n in range(start - 1, -1, -1) if lines[n].startswith((_HEADER, _GROUP))), 0)
    return start


def _says_no_memory(stderr: str) -> bool:
    return any(sign in stderr[-_AT_THE_END:] for sign in _NO_MORE_MEMORY)


def is_out_of_memory(trace: Traceback) -> bool:
    """Return whether the exception is about missing memory."""
    # NumPy has its own class for this; mmap raises OSError.
    return trace.name.endswith(("MemoryError", "std::bad_alloc")) or (
        trace.name == "OSError" and "[Errno 12]" in trace.message
    )


def _find_syntax_error(lines: list[str]) -> Traceback | None:
    """Find the error of a program that did not compile: there is no `Traceback` line, only the place, if that."""
    last = len(lines) - 1 if lines[-1] else len(lines) - 2
    raised = _exception(lines[max(last, 0)])
    if raised is None or raised.group(1) not in (*SYNTAX, "RecursionError", "MemoryError"):
        return None
    start = next((n for n in range(last, -1, -1) if lines[n].startswith('  File "')), last)
    return Traceback(raised.group(1), raised.group(2) or "", "\n".join(lines[start:]))


def unread(error: Error, source: str | None) -> tuple[Diagnostic, ...]:
    """Return the place of a syntax error, as a compiler's diagnostic; Python's indented quotation hides the column."""
    from re import MULTILINE, findall

    from cloche.languages.language import HOME

    places = findall(r'^ {2,}File "([^"<][^"]*)", line (\d{1,9})$', error.traceback or "", MULTILINE)
    if error.kind != "syntax" or not places:
        return ()
    file, line = places[-1]
    shown = file.rpartition("/")[2] if file == source else file.removeprefix(f"{HOME}/")
    return (Diagnostic(shown, int(line), 0, error.message),)


def _with(trace: Traceback | None, kind: str, message: str, hint: str) -> Error:
    if trace is None:
        return Error(kind, message, hint)
    return Error(kind, message, hint, trace.name, trace.text, raised=raised_in(trace))


def raised_in(trace: Traceback) -> tuple[Raised, ...]:
    """Return the exceptions of a traceback and their calls."""
    from cloche.engine import stack_frames  # only a failure needs it

    return stack_frames.raised_in(trace.name, trace.message, trace.text)


def _memory(limits: Limits, trace: Traceback | None = None) -> Error:
    return _with(
        trace,
        "memory",
        f"The program needed more than {size(limits.memory_bytes)} of memory.",
        "Work on less data at a time, free what is no longer needed, or allow more with memory=.",
    )


def _not_permitted(facts: Facts) -> bool:
    return "Operation not permitted" in facts.stderr_tail or "Errno 1]" in facts.stderr_tail


def _disk_full(facts: Facts) -> bool:
    full = facts.disk_free is not None and facts.disk_free < 4096
    said = "No space left on device" in facts.stderr_tail or "Errno 28" in facts.stderr_tail
    return said or full or facts.inodes_free == 0


def killed(number: int, trace: Traceback | None) -> Error:
    """Return the error for a program that a signal ended."""
    try:
        from signal import Signals

        name = Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hints = {
        "SIGSEGV": "It touched memory that is not its own: look for bad pointers and indexes, endless recursion.",
        "SIGABRT": "It gave up, or a native library did; its standard error says why.",
        "SIGFPE": "It divided an integer by zero.",
        "SIGINT": "It was interrupted.",
    }
    return _with(trace, "killed", f"The program was killed by {name}.", hints.get(name, "Something sent it a signal."))


def last_complaint(stderr: str) -> tuple[Raised, ...]:
    """Return the place that the last line of standard error names, as Bash does: `main.sh: line 2: …`."""
    last = stderr.rstrip("\n").rpartition("\n")[2]
    if ": line " not in last:
        return ()
    return raised_in(Traceback("", last.partition(": line ")[2].partition(": ")[2], last))


def exit_advice(stderr: str, stdout: str = "") -> str:
    """Return advice about an exit code other than 0.  Some programs, such as Maven, report to standard output."""
    from re import sub  # imported late: a cold `cloche run` that succeeds does not need it

    from cloche.engine import no_network  # only a failure needs it

    if not sub(_COLOURS, "", stderr).strip():
        return no_network.advice(stdout) or "Its output may say why; if not, check its logic."
    return no_network.advice(stderr) or "Its standard error says more."


def advice(trace: Traceback, stderr: str) -> str:
    """Return advice about an exception, and about the output before it."""
    from cloche.engine import missing_modules, no_network  # only a failure needs them

    suggestion = missing_modules.advice(trace.name, trace.message)
    if suggestion is not None:
        return suggestion
    advice = {
        "ModuleNotFoundError": missing_modules.INSTALLED_ONLY,
        "ImportError": "Check the name; the library may be another version than you think.",
        "FileNotFoundError": "Check the path: files given to the sandbox are under /sandbox, the working directory.",
        "PermissionError": "Only /sandbox and /tmp can be written, and the sandbox refuses some system calls.",
        "KeyError": "Check which keys or columns there are before using one.",
        "RecursionError": "Find the recursion that does not end, or use a loop.",
        "EOFError": "The program asked for input and there was none: pass it with stdin=, or do not ask.",
    }
    if trace.name in advice:
        return advice[trace.name]
    found = no_network.advice(f"{stderr}\n{trace.text}\n{trace.message}")
    return found or "Read the last lines of the traceback, correct the program and run it again."


def seconds(count: float) -> str:
    """Format a time for people."""
    return "1 second" if count == 1 else f"{count:g} seconds"


def size(count: int) -> str:
    """Format a number of bytes for people."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} bytes"
