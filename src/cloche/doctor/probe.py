"""A probe: a small hostile program that runs inside a sandbox, and a judgement from outside of its success.

A program prints each attempt as a JSON list on a line: [subject, "gained" or "refused", detail].  `TOOLS` comes before
each program and does the printing.  A program cannot make a wall look better by lying or dying: if it does not reach
its end, the probe counts as not tried, unless it expects just that.
"""

from __future__ import annotations

from json import loads

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from cloche.blocking.sandbox.sandbox import Sandbox
    from cloche.doctor.scene import Scene
    from cloche.model.result import Result

HELD, NOT_HELD, NOT_TRIED = "held", "NOT held", "could not be tried"


class Finding(Plain):
    """The outcome of a probe: its verdict, and the attacker's gain, or the reason why the probe could not be tried."""

    row: str  # its row in the table of threats
    name: str
    verdict: str
    detail: str = ""


class ProbeRun(Plain):
    """The facts for a judgement, after a probe's program has run."""

    result: Result
    attempts: tuple[tuple[str, str, str], ...]  # subject, "gained" or "refused", detail
    finished: bool  # the program reached its end
    elapsed_s: float
    scene: Scene
    looked: tuple[str, ...] = ()  # the gains that `look` found


class Probe(Plain):
    """An attack: its row in the table of threats, the property to defend, the program, and the judgement."""

    row: str
    name: str
    program: str
    judge: Callable[[ProbeRun], tuple[str, str]] | None = None  # verdict and detail; default: nothing was gained
    limits: Mapping[str, Any] = {}
    look: Callable[[Scene, Sandbox | None], list[str]] | None = None  # looks from outside; returns the gains
    when: str = "after"  # to look: "during" (the program is done, but waits), "after" it, or when all is "gone"
    policy: Callable[[Scene], list[str]] | None = None  # the hosts that the sandbox may reach; default: none


def judge_attempts(seen: ProbeRun) -> tuple[str, str]:
    """Judge in the usual way: every attempt must have been refused."""
    gained = [f"{what}: {detail}" if detail else what for what, outcome, detail in seen.attempts if outcome == "gained"]
    gained += seen.looked
    if gained:
        return NOT_HELD, "; ".join(gained)
    if not seen.finished:
        return NOT_TRIED, _why_unfinished(seen.result)
    if not seen.attempts:
        return NOT_TRIED, "There was nothing to attack."
    return HELD, ""


def stopped_by(*kinds: str, within_s: float) -> Callable[[ProbeRun], tuple[str, str]]:
    """Return a judgement for limits: the run must have ended with an error of one of these kinds, and soon enough."""

    def judge(seen: ProbeRun) -> tuple[str, str]:
        kind = seen.result.error.kind if seen.result.error is not None else "none"
        gained = [what for what, outcome, _ in seen.attempts if outcome == "gained"] + list(seen.looked)
        if kind not in kinds or gained:
            what = f"; {'; '.join(gained)}" if gained else ""
            return NOT_HELD, f"Ended with error {kind} instead of {' or '.join(kinds)}{what}."
        if seen.elapsed_s > within_s:
            return NOT_HELD, f"It took {seen.elapsed_s:.1f} s to end it, instead of {within_s:g}."
        return HELD, ""

    return judge


def read_attempts(stdout: str) -> tuple[tuple[tuple[str, str, str], ...], bool]:
    """Parse a program's attempts, and whether it reached its end; forged lines only harm its own score."""
    attempts, finished = [], False
    for line in stdout.splitlines():
        try:
            entry = loads(line)
        except ValueError:
            continue
        if entry == "done":
            finished = True
        elif isinstance(entry, list) and len(entry) == 3 and all(isinstance(part, str) for part in entry):
            attempts.append((_shown(entry[0]), entry[1], _shown(entry[2])))
    return tuple(attempts), finished


def _shown(text: str) -> str:
    """Make text from inside safe for a terminal: no escape sequences, and a limited length."""
    return "".join(character if character.isprintable() else "?" for character in text[:200])


def _why_unfinished(result: Result) -> str:
    if result.error is None:
        return "The program ended early."
    return f"{result.error.kind}: {result.error.message}"


TOOLS = '''
import ctypes, errno, json, mmap, os, signal, socket, struct, sys, time
GIVEN = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def tell(what, outcome, detail=""):
    print(json.dumps([what, outcome, str(detail)]), flush=True)

def name_of(problem):
    return errno.errorcode.get(problem.errno, str(problem)) if problem.errno else str(problem)

def attempt(what, do, *arguments):
    """Gained if it works; refused if it raises an OSError."""
    try:
        gained = do(*arguments)
    except OSError as problem:
        tell(what, "refused", name_of(problem))
        return False
    tell(what, "gained", "" if gained is None else repr(gained)[:100])
    return True

def call(name, *arguments):
    """A raw system call by name."""
    ctypes.set_errno(0)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    done = libc.syscall(ctypes.c_long(GIVEN["calls"][name]), *plain)
    if done < 0:
        raise OSError(ctypes.get_errno(), name)
    return done

def attempt_call(name, *arguments, what=None):
    if name in GIVEN["calls"]:
        attempt(what or name, lambda: call(name, *arguments))

def reach(name, *arguments):
    """Gained if the kernel so much as looked at the arguments, which are always harmless nonsense."""
    if name not in GIVEN["calls"]:
        return
    try:
        done = call(name, *arguments)
    except OSError as problem:
        refused = problem.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS)
        tell(name, "refused" if refused else "gained", name_of(problem))
    else:
        tell(name, "gained", done)

def in_child(do, *arguments):
    """For what would change this process: raises what the child met."""
    child = os.fork()
    if child == 0:
        try:
            do(*arguments)
        except OSError as problem:
            os._exit(problem.errno or 255)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        raise OSError(f"signal {os.WTERMSIG(status)}")
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "in a child")

def read(path, count=4096):
    with open(path, "rb", buffering=0) as file:
        return file.read(count)

def write_open(path):
    """Open for writing, and write nothing; a mask of /dev/null counts as refused."""
    fd = os.open(path, os.O_WRONLY)
    try:
        if os.fstat(fd).st_rdev == os.stat("/dev/null").st_rdev:
            raise OSError("masked")
    finally:
        os.close(fd)
'''

END = '\nprint(json.dumps("done"), flush=True)\n'
