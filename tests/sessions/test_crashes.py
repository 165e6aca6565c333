"""Kernels that die, and kernels that lie: told as what it was, and nobody else is harmed."""

# ruff: noqa: E501  (attacks are easier to compare when each is one line)

from __future__ import annotations

import resource

import pytest

import cloche

CRASHES = [
    ("import ctypes; ctypes.string_at(0)", "killed", "SIGSEGV", 128 + 11),
    ("import os; os._exit(3)", "exit", "3", 3),
    ("import os; os._exit(0)", "exit", "0", 1),
    ("import os; os.kill(os.getpid(), 9)", "killed", "SIGKILL", 128 + 9),
    ("import os; os.kill(os.getpid(), 15)", "killed", "SIGTERM", 128 + 15),
    ("import os; os.abort()", "killed", "SIGABRT", 128 + 6),
    ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo executed; exit 7'])", "exit", "7", 7),
    ("import os; os.closerange(3, 1000)", "exit", "", None),
    ("import os; os.closerange(0, 1000)", "exit", "", None),
    ("import os, signal; os.killpg(0, 9)", "killed", "SIGKILL", 128 + 9),
]


@pytest.mark.parametrize(("code", "kind", "word", "exit_code"), CRASHES, ids=[crash[0][:40] for crash in CRASHES])
def test_a_kernel_that_dies_is_told_as_what_it_was(
    shared: cloche.Sandbox, code: str, kind: str, word: str, exit_code: int | None
) -> None:
    other = shared.contexts.create()
    other.run("untouched = 1")
    shared.run("x = 1; open('kept', 'w').write('kept')")
    result = shared.run(f"print('before')\n{code}\nprint('after')")
    assert (result.error.kind, result.restarted) == (kind, True), result
    assert word in result.error.message
    assert "variables are gone" in result.error.message
    assert result.error.hint
    assert exit_code is None or result.exit_code == exit_code
    assert result.stdout.startswith("before\n")
    assert "after" not in result.stdout or "closerange" in code  # that goes on for a while
    again = shared.run("'x' in globals(), open('kept').read()")
    assert (again.text, again.restarted, again.execution_count, again.error) == ("(False, 'kept')", False, 1, None)
    assert other.run("untouched").text == "1"
    other.remove()


def test_a_kernel_that_needs_too_much_memory_is_told() -> None:
    with cloche.Sandbox(memory="200M") as box:
        other = box.contexts.create()
        other.run("y = 2")
        box.run("x = 1; open('kept', 'w').write('kept')")
        result = box.run("print('before')\nx = []\nwhile True: x.append(bytearray(10 << 20))")
        assert result.error.kind == "memory", result
        assert "200 MB" in result.error.message
        assert result.stdout == "before\n"
        assert box.run("open('kept').read()").text == "'kept'"
        told = other.run("'y' in globals()")  # the wall may have ended all programs of the sandbox
        assert told.restarted == (told.text == "False")


def test_more_memory_than_there_could_be_is_a_memory_error_and_the_kernel_lives(shared: cloche.Sandbox) -> None:
    shared.run("x = 1")
    result = shared.run("bytearray(1 << 50)")
    assert (result.error.kind, result.error.name, result.restarted) == ("memory", "MemoryError", False)
    assert shared.run("x").text == "1"


def test_a_kernel_that_dies_between_two_cells_is_told_by_the_next(box: cloche.Sandbox) -> None:
    pid = box.run("x = 1; import os; os.getpid()").text
    box.commands.run(f"kill -9 {pid}; while [ -e /proc/{pid} ]; do sleep 0.01; done")
    result = box.run("'x' in globals()")
    assert (result.text, result.restarted, result.error) == ("False", True, None)
    assert not box.run("1").restarted


def test_what_a_kernel_printed_last_is_not_lost(shared: cloche.Sandbox) -> None:
    result = shared.run("import os\nfor n in range(20_000): print(n)\nos._exit(1)")
    assert result.stdout == "".join(f"{n}\n" for n in range(20_000))


def test_children_end_with_their_kernel(shared: cloche.Sandbox) -> None:
    shared.run("import os, subprocess; subprocess.Popen(['sleep', '78']); os._exit(1)")
    assert "sleep 78" not in shared.commands.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout


def test_many_crashes_leave_nothing_behind(shared: cloche.Sandbox) -> None:
    before = shared.usage()
    for _ in range(30):
        assert shared.run("import os; os._exit(1)").restarted
    shared.run("1")
    after = shared.usage()
    assert after.processes <= before.processes + 2
    assert after.memory < before.memory + (60 << 20)


# --- what comes back in place of a value


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("raise ValueError('no')", "ValueError"),
        ("return 5", "TypeError"),
        ("raise SystemExit(3)", None),
        ("raise KeyboardInterrupt", None),
        ("raise RecursionError", "RecursionError"),
    ],
)
def test_a_repr_that_fails_costs_its_own_cell(shared: cloche.Sandbox, body: str, name: str | None) -> None:
    shared.run("x = 1")
    result = shared.run(f"class Odd:\n    def __repr__(self): {body}\nOdd()")
    assert not result.ok or "Odd" in (result.text or "") or name in result.stderr  # type: ignore[operator]
    assert name is None or result.ok or result.error.name == name
    assert shared.run("x").text == "1"


def test_a_repr_that_hangs_is_stopped(shared: cloche.Sandbox) -> None:
    shared.run("x = 1")
    result = shared.run("class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()", timeout=0.3)
    assert (result.error.kind, result.restarted) == ("timeout", False)
    assert shared.run("x").text == "1"


@pytest.mark.parametrize("size", [100_000_000, 300_000_000])
def test_a_huge_text_is_cut(shared: cloche.Sandbox, size: int) -> None:
    shared.run("x = 1")
    result = shared.run(f"class Huge:\n    def __repr__(self): return 'x' * {size}\nHuge()")
    assert result.ok, result.error
    assert len(result.text or "") < 4 << 20
    assert "left out" in (result.text or "")
    assert shared.run("x").text == "1"


def test_a_repr_of_a_gigabyte_costs_its_own_run(warm: None) -> None:
    with cloche.Sandbox(memory="300M") as box:
        result = box.run("class Huge:\n    def __repr__(self): return 'x' * (1 << 30)\nHuge()")
        assert result.error.kind == "memory"
        assert box.run("1").text == "1"


# --- lies

LIAR = """
import os, stat, struct
def sockets():
    for name in os.listdir('/proc/self/fd'):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode): yield int(name)
        except OSError: pass
def frame(kind, payload, operation=None):
    operations = range(1, 60) if operation is None else [operation]
    return b''.join(struct.pack('>IIB', len(payload), n, kind) + payload for n in operations)
def say(data):
    for fd in list(sockets()):
        view = memoryview(data)
        try:
            while view: view = view[os.write(fd, view):]
        except OSError: pass
STARTED, STDOUT, STDERR, EXIT, REPLY, FAIL, DATA, EVENT = 16, 17, 18, 19, 20, 21, 22, 23
def shown(data, last=1): return bytes([last]) + data
"""

LIES = {
    "noise": "say(b'\\xff' * 5000)",
    "noise at length": "for _ in range(50): say(os.urandom(100_000))",
    "a frame without end": "say(struct.pack('>IIB', 0xffffffff, 1, DATA))",
    "kinds that are not its own": "for kind in range(256): say(frame(kind, b'{}'))",
    "credit": "say(frame(8, b'\\xff\\xff\\xff\\xff'))",
    "the end": "say(frame(EXIT, b'{}'))",
    "the end, twice": 'say(frame(EXIT, b\'{"status": "ok"}\') * 2)',
    "nonsense at the end": 'say(frame(EXIT, b\'{"cpu": "x", "peak": 1e999, "code": [1], "count": {}, "status": 5}\'))',
    "numbers without end": 'say(frame(EXIT, b\'{"cpu": 1e999, "peak": -1e999, "code": %s}\' % (b\'9\' * 4000)))',
    "a long end": "say(frame(EXIT, ('{\"status\": \"' + 'é' * 400_000 + '\"}').encode()))",
    "a deep end": "say(frame(EXIT, b'{\"a\":' + b'[' * 900 + b']' * 900 + b'}'))",
    "no JSON at the end": "say(frame(EXIT, b'[')); say(frame(EXIT, b'\\xff'))",
    "pid 1": "say(frame(STARTED, b'{\"pid\": 1}'))",
    "a pid that is no number": "say(frame(STARTED, b'{\"pid\": 1e999}')); say(frame(STARTED, b'{\"pid\": []}')); say(frame(STARTED, b'5'))",
    "answers": "say(frame(REPLY, b'{}')); say(frame(FAIL, b'{\"errno\": 1e999}')); say(frame(FAIL, b'x'))",
    "a message without end": "for _ in range(60): say(frame(DATA, shown(b'x' * 10_000, 0)))",
    "messages that are no JSON": "say(frame(DATA, shown(b'{'))); say(frame(DATA, shown(b'\\xff'))); say(frame(DATA, b''))",
    "a deep message": "say(frame(DATA, shown(b'[' * 200_000)))",
    "messages of another form": '\nfor text in (b\'[]\', b\'5\', b\'{}\', b\'{"type": 5}\', b\'{"type": "display"}\', b\'{"type": "display", "data": []}\', b\'{"type": "display", "data": {"a": 1}, "metadata": 5, "display_id": {}, "update": []}\'): say(frame(DATA, shown(text)))',
    "an error of another form": '\nfor text in (b\'{"type": "error"}\', b\'{"type": "error", "name": [], "message": {}, "traceback": 5, "ansi": []}\'): say(frame(DATA, shown(text)))',
    "calls of tools": 'say(frame(EVENT, b\'{"call": 1, "tool": "f", "args": [], "kwargs": {}}\'))',
    "calls of another form": "say(frame(EVENT, b'[]')); say(frame(EVENT, b'{')); say(frame(EVENT, b'{\"call\": {}, \"tool\": [], \"args\": 5}'))",
    "output for others": "say(frame(STDOUT, b'x' * 1000)); say(frame(STDERR, b'x', 0xffffffff))",
    "many displays": 'say(frame(DATA, shown(b\'{"type": "display", "data": {"text/plain": "x"}}\')) * 100)',
}


@pytest.mark.parametrize("lie", LIES)
def test_a_kernel_that_lies_harms_its_own_results_alone(warm: None, lie: str) -> None:
    with cloche.Sandbox(timeout=5) as box:
        box.files.write("kept", "kept")
        other = box.contexts.create()
        other.run("y = 2")
        box.run(f"{LIAR}\n{LIES[lie]}\n5", timeout=1)
        assert other.run("y").text == "2"
        assert box.files.read_text("kept") == "kept"
        box.restart("python")
        again = box.run("1 + 1")
        assert (again.text, again.error, again.restarted) == ("2", None, False)


@pytest.mark.parametrize(
    "flood",
    [
        "for _ in range(1500): say(frame(DATA, shown(b'x' * 100_000, 0), operation))",  # 150 MB, and no end
        'say(frame(DATA, shown(b\'{"type": "display", "data": {"a": [\', 0), operation))\nfor _ in range(58): say(frame(DATA, shown(b\'[],\' * 349_000, 0), operation))\nsay(frame(DATA, shown(b\'[]]}}\'), operation))',
        'one = frame(DATA, shown(b\'{"type": "display", "data": {"text/plain": "x"}}\'), operation) * 1000\nfor _ in range(100): say(one)',
        'for _ in range(150): say(frame(EVENT, b\'{"call": 1, "tool": "f", "args": ["\' + b\'x\' * 900_000 + b\'"], "kwargs": {}}\', operation))',
        'one = frame(DATA, shown(b\'{"type": "error", "name": "\' + b\'x\' * 900_000 + b\'"}\'), operation)\nfor _ in range(150): say(one)',
        "one = frame(STDOUT, b'o', operation) + frame(STDERR, b'e', operation)\nfor _ in range(100): say(one * 1000)",
    ],
    ids=["no end", "empty lists", "displays", "calls", "errors", "single letters"],
)
def test_a_flood_does_not_fill_the_engine(warm: None, flood: str) -> None:
    with cloche.Sandbox(timeout=10, tools={"f": lambda text: len(text)}) as box:
        box.run("1")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        box.run(f"{LIAR}\noperation = 2\n{flood}")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 250 << 10  # kB
        box.restart()
        assert box.run("1 + 1").text == "2"


@pytest.mark.parametrize("ends", ["kill", "timeout"])
def test_what_ends_a_command_ends_nothing_that_began_after_it(ends: str) -> None:
    with cloche.Sandbox() as box:
        command = box.commands.start(
            "setsid sleep 4242 & echo ready; sleep 4243", timeout=None if ends == "kill" else 3
        )
        other = box.contexts.create()
        box.run("x = 1")
        other.run("x = 2")
        before = box.checkpoint()
        box.run("x = 3; import os; os.system('sleep 4244 &')")
        other_command = box.commands.start("sleep 4245")
        if ends == "kill":
            command.kill()
        assert command.wait().error.kind == ("killed" if ends == "kill" else "timeout")
        running = box.commands.run("ps -C sleep -o args=").stdout.split("\n")
        assert sorted(filter(None, running)) == ["sleep 4244", "sleep 4245"]
        assert (box.run("x").text, other.run("x").text) == ("3", "2")
        box.restore(before)
        assert box.run("x").text == "1"
        other_command.kill()
