"""Interpreters that are started in advance: they are used when possible, and a program cannot tell the difference."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.blocking.engine.place import HostPlace
from cloche.blocking.engine.sandbox import HostSandbox
from cloche.blocking.sandbox.one_shot import checked_job
from cloche.languages.language import Project
from cloche.model.limits import Limits
from cloche.model.order import FirstCommand
from cloche.model.result import Result
from cloche.sandbox.requests import Command, checked_program
from cloche.walls import sockets
from cloche.walls.jail.pool import Pool
from cloche.walls.jail.sandbox_process import SandboxProcess

if TYPE_CHECKING:
    from cloche.walls.jail.claim import CommandData

pytestmark = pytest.mark.usefixtures("jail")

AHEAD = [language.name for language in languages.everything() if language.ahead]

# Each prints what the kernel knows about its process, one file after the other.
FILES = ("stat", "cmdline", "environ", "status")
LOOKS = {
    "bash": "\n".join(f"mapfile -t lines < /proc/$$/{name}; echo; printf '%s\\n' \"${{lines[@]}}\"" for name in FILES),
    "javascript": f"for (const name of {list(FILES)}) {{ console.log(); "
    "process.stdout.write(require('fs').readFileSync('/proc/self/' + name)); }",
    "lua": f"for _, name in ipairs({{{', '.join(map(repr, FILES))}}}) do "
    "print(); io.write(io.open('/proc/self/' .. name):read('a')) end",
    "perl": f'for my $name (qw({" ".join(FILES)})) {{ print "\\n"; '
    "open(my $file, '/proc/self/' . $name); print <$file>; }",
    "php": f"<?php foreach ({list(FILES)} as $name) {{ echo \"\\n\"; echo file_get_contents('/proc/self/' . $name); }}",
    "r": f"for (name in c({', '.join(map(repr, FILES))})) {{ cat('\\n'); "
    "cat(gsub('\\\\\\\\x00', '', readLines(paste0('/proc/self/', name), warn = FALSE, skipNul = TRUE)), sep = '\\n') }",
    "ruby": f"%w({' '.join(FILES)}).each {{ |name| puts; print File.read('/proc/self/' + name) }}",
    "tcl": f"foreach name {{{' '.join(FILES)}}} {{ puts {{}}; puts -nonewline [read [open /proc/self/$name]] }}",
    "typescript": f"import {{ readFileSync }} from 'fs';\nfor (const name of {list(FILES)}) {{ console.log(); "
    "process.stdout.write(readFileSync('/proc/self/' + name)); }",
}
STATUS = (
    *("Umask", "TracerPid", "Uid", "Gid", "Groups", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"),
    *("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"),
)


def seen(result: Result) -> tuple[float, list[str]]:
    """Return when the process began, on the clock since boot, and everything else that it sees of itself."""
    assert result.error is None, result
    stat, _, rest = result.stdout.lstrip("\n").partition("\n")
    fields = stat.rpartition(")")[2].split()
    leads = fields[2] == fields[3] == stat.split()[0]  # its own group and session
    lines = [line for line in rest.splitlines() if line.split(":")[0] in STATUS or "\t" not in line]
    return int(fields[19]) / 100, [f"leads {leads}", fields[1], *map(without_libc, lines)]


def without_libc(line: str) -> str:
    """Remove the two signals of the C library from a mask; they depend on how it started our nursery."""
    name, _, mask = line.partition(":\t")
    return f"{name} {int(mask, 16) & ~(3 << 31):x}" if name.startswith("Sig") else line


def bash_sandbox() -> HostSandbox:
    """A sandbox for one program in Bash."""
    return HostPlace().one_shot(checked_job("", Limits(), language="bash"))


def run_until_ahead(code: str, language: str) -> Result:
    """Run a program again and again until it gets a process that was started before the request."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        requested = time.clock_gettime(time.CLOCK_BOOTTIME)
        result = cloche.run(code, language=language, check="off")
        if seen(result)[0] < requested - 0.02:
            return result
        time.sleep(0.05)  # no event announces that the next one waits
    raise AssertionError(f"{language} was never started ahead")


@pytest.mark.parametrize("name", AHEAD)
def test_a_program_sees_the_same_in_a_process_that_was_started_ahead(name: str) -> None:
    needs(name)
    with cloche.Sandbox() as box:  # nothing is started in advance in an existing sandbox
        usual = box.run_program(LOOKS[name], language=name, check="off")
    assert seen(run_until_ahead(LOOKS[name], name))[1] == seen(usual)[1]


def test_bash_counts_its_seconds_from_the_program_on(jail: None) -> None:
    run_until_ahead(LOOKS["bash"], "bash")
    for _ in range(10):  # on a busy machine, the next one may have started late
        time.sleep(1.1)  # the only difference that it may notice is time
        requested = time.clock_gettime(time.CLOCK_BOOTTIME)
        result = cloche.run(f"echo $SECONDS\n{LOOKS['bash']}", language="bash")
        assert result.stdout.startswith("0\n")
        if seen(result.replace(stdout=result.stdout[2:]))[0] < requested - 1:
            return
    raise AssertionError("Bash was never started a second ahead")


@pytest.mark.parametrize("options", [{"args": ["a"]}, {"env": {"A": "b"}}, {"files": {"a": "b"}, "entry": "x.sh"}])
def test_what_is_asked_for_otherwise_is_started_otherwise(options: dict[str, Any]) -> None:
    run_until_ahead(LOOKS["bash"], "bash")
    requested = time.clock_gettime(time.CLOCK_BOOTTIME)
    result = cloche.run(f'echo "$@$A"\n{LOOKS["bash"]}', language="bash", **options)
    assert result.stdout.startswith(("a\n", "b\n", "\n"))
    assert seen(result.replace(stdout=result.stdout.partition("\n")[2]))[0] >= requested - 0.02


def test_one_that_turns_out_not_to_fit_is_not_used() -> None:
    run_until_ahead(LOOKS["bash"], "bash")
    requested = time.clock_gettime(time.CLOCK_BOOTTIME)
    box = bash_sandbox()
    bash = needs("bash")
    found = languages.tools(bash)
    assert found is not None
    command = bash.plan_for(Project("/sandbox/code/main.sh"), found)
    box.expect(FirstCommand(command.run, {}, "getuid"))  # and then something else is run
    try:
        program = checked_program(f"echo $1\n{LOOKS['bash']}", language="bash", args=["word"])
        result = box.programs.run_program(program, None)
    finally:
        box.close()
    assert result.stdout.startswith("word\n")
    assert seen(result.replace(stdout=result.stdout.partition("\n")[2]))[0] >= requested - 0.02


def test_one_that_is_refused_a_call_before_it_waits_gets_the_refusal_and_goes_on() -> None:
    program = (
        "import ctypes, os; began = open('/proc/self/stat').read().split()[21]; "
        "print(ctypes.CDLL(None).unshare(1 << 28), began, os.listdir('/sandbox/code'))"
    )
    argv = ("/opt/env/bin/python3", "-I", "-c", program)  # -I: imports do not look into the workspace
    deadline = time.monotonic() + 20
    requested = began = 0.0
    while began >= requested - 0.02:  # until the process was started before the request
        assert time.monotonic() < deadline
        box = bash_sandbox()
        box.expect(FirstCommand(argv, {}, "files"))
        requested = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            result = box.programs.run_command(Command(list(argv), timeout=10), None)
        finally:
            box.close()
        assert result.stdout.startswith("-1 "), result
        assert result.error is None
        began = int(result.stdout.split()[1]) / 100
        time.sleep(0.05)  # no event announces that the next one waits


@pytest.mark.parametrize(
    "command",
    [("/usr/bin/unshare", "-U", "/bin/cat", "/sandbox/x"), ("/bin/sleep", "60")],
    ids=["a refused call on the way", "no way there at all"],
)
def test_a_command_that_cannot_come_to_where_it_should_wait_holds_up_nobody(command: tuple[str, ...]) -> None:
    for _ in range(3):  # the first makes it known, a later one is given the sandbox in which it was started
        box = bash_sandbox()
        box.expect(FirstCommand(command, {}, "files"))
        try:
            assert box.programs.run_command(Command(["echo", "here"], timeout=20), None).stdout == "here\n"
        finally:
            box.close()
        time.sleep(0.1)  # no event announces that the next one is being made


def test_no_more_are_kept_ready_than_were_asked_for_of_late(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(1)
    commands: list[CommandData] = [{"argv": (f"/bin/{number}",), "env": {}, "until": "files"} for number in range(30)]
    ours, theirs = sockets.pair()
    plain = SandboxProcess(1, ours, None, "shape")
    assert pool.lacks([]) == (True, None)
    assert pool.lacks([plain]) == (False, None)
    for command in commands:
        pool.note(command)
    sandboxes, kept = [plain], []
    while (lack := pool.lacks(sandboxes))[0]:
        assert lack[1] is not None
        kept.append(lack[1])
        sandboxes.append(SandboxProcess(1, ours, None, "shape"))
        sandboxes[-1].first_command = repr(lack[1])
    assert 2 <= len(kept) <= 10
    assert kept == commands[: -len(kept) - 1 : -1]  # the latest first
    assert pool.choose(sandboxes, "shape", commands[-1]) is sandboxes[1]
    assert pool.choose(sandboxes, "shape", commands[0]) is plain
    assert pool.choose(sandboxes[1:], "shape", None) is None
    assert pool.choose(sandboxes, "another shape", None) is None
    assert pool.outdated(sandboxes) == []
    later = time.monotonic() + 301
    monkeypatch.setattr("cloche.walls.jail.pool.monotonic", lambda: later)
    assert pool.outdated(sandboxes) == sandboxes[1:]
    assert pool.lacks([plain]) == (False, None)
    assert Pool(0).lacks([]) == (False, None)
    ours.close()
    theirs.close()
