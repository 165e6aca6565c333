"""Cells that write frames to their kernel's control, as their kernel would.

A cell's status is the word of its kernel, which is the cell's own process.  So a cell can say how it ended, but it
harms nobody else: not the next cell, no other context, and nothing that is measured from outside.
"""

from __future__ import annotations

import threading

import pytest

import cloche
from cloche.wire import frames

pytestmark = pytest.mark.embedded  # what is tested is the engine and the agent

FORGE = """
import gc, json, os, struct, time
def forge(payload, kind=EXIT, operation=None):
    data = payload if type(payload) is bytes else json.dumps(payload).encode()
    names = [name for name in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + name)]
    control = next(int(name) for name in names if os.readlink('/proc/self/fd/' + name).startswith('socket:'))
    number = channel().operation if operation is None else operation
    os.write(control, struct.pack('>IIB', len(data), number, kind) + data)
def channel():
    return next(thing for thing in gc.get_objects() if type(thing).__name__ == 'Channel')
""".replace("EXIT", str(frames.EXIT))


@pytest.fixture
def forger(box: cloche.Sandbox) -> cloche.Sandbox:
    assert box.run(FORGE).ok
    return box


# Ends that no kernel of ours reports; none of them is a success.
NONSENSE = {
    "nothing": b"",
    "no object": b"[]",
    "no status": b"{}",
    "no JSON": b"\xff\xfe",
    "only a code": b'{"code":0}',
    "unknown status": b'{"status":"fine","code":0}',
    "status of another type": b'{"status":["ok"],"code":0}',
    "successful with a code": b'{"status":"ok","code":3}',
    "failed without a code": b'{"status":"error","code":0}',
    "negative code": b'{"status":"error","code":-1000000}',
    "large code": b'{"status":"exit","code":1e17}',
    "deep": b'{"status":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
}


def test_a_nonsensical_end_is_a_failure(forger: cloche.Sandbox) -> None:
    for name, payload in NONSENSE.items():
        text = repr(payload) if len(payload) < 999 else f"b'{{\"status\":' + {payload[10:20]!r} * 5000"
        result = forger.run(f"forge({text}); time.sleep(0.05)")
        assert not result.ok, name
        assert 1 <= result.exit_code <= 255, name
        assert forger.run("6 * 7").text == "42", name


NUMBERS = ("-1e9", "1e17", "NaN", "1e999", "-1", '"1"', "[1]", "true", "99999999999999999999999")


def test_forged_numbers_stay_within_bounds(forger: cloche.Sandbox) -> None:
    for number in NUMBERS:
        end = f'{{"status":"ok","code":0,"cpu":{number},"peak":{number},"count":{number}}}'
        result = forger.run(f"forge({end.encode()!r}); time.sleep(0.05)")
        assert 0 <= result.cpu_time < 86_400, number
        assert result.memory_peak >= 0, number
        assert result.execution_count is None or result.execution_count > 0, number
    assert forger.run("6 * 7").text == "42"


def test_the_next_cell_has_its_own_result_and_files(forger: cloche.Sandbox) -> None:
    forger.run(
        "forge({'status': 'ok', 'code': 0})\n"
        "time.sleep(0.05)\n"
        "open('/sandbox/output/late.txt', 'w').write('late')\n"
        "print('late')\n"
        "raise ValueError('late')"
    )
    result = forger.run("6 * 7")
    assert result.ok
    assert result.text == "42"
    assert not forger.run("raise ValueError('failed')").ok
    assert forger.files.read_text("/sandbox/output/late.txt") == "late"


def test_a_forged_end_before_an_endless_loop_does_not_last_longer_than_the_next_cells_time(
    forger: cloche.Sandbox,
) -> None:
    forger.run("forge({'status': 'ok', 'code': 0})\nwhile True: pass")
    late = forger.run("6 * 7", timeout=1)
    assert late.error is not None
    assert late.error.kind == "timeout"
    assert forger.run("6 * 7").text == "42"


def test_no_forged_frame_ends_a_cell_of_another_context(forger: cloche.Sandbox) -> None:
    other = forger.contexts.create()
    other.run("import time\nv = 1")
    results: list[cloche.Result] = []
    waiting = threading.Thread(target=lambda: results.append(other.run("time.sleep(1)\nraise ValueError('failed')")))
    waiting.start()
    kinds = sorted({frames.EXIT, frames.STDOUT, frames.DATA, frames.SYNC, frames.REPLY, frames.FAIL, frames.STARTED})
    forger.run(
        f"for kind in {kinds}:\n"
        "    for number in range(200):\n"
        "        forge({'status': 'ok', 'code': 0, 'pid': 1}, kind, number)\n"
    )
    waiting.join()
    (result,) = results
    assert result.error is not None
    assert "failed" in result.error.message
    assert result.stdout == ""
    assert other.run("v").text == "1"


def test_a_thread_that_forges_the_ends_of_later_cells_costs_nobody_else_anything(forger: cloche.Sandbox) -> None:
    other = forger.contexts.create()
    forger.run(
        "import threading\n"
        "def keep_forging():\n"
        "    for _ in range(2000):\n"
        "        forge({'status': 'ok', 'code': 0, 'cpu': -1e9}); time.sleep(0.0005)\n"
        "threading.Thread(target=keep_forging, daemon=True).start()"
    )
    for _ in range(3):
        forger.run("raise ValueError('failed')")  # its status is no longer to be relied on
        result = other.run("raise ValueError('failed')")
        assert not result.ok
    forger.restart()
    assert not forger.run("raise ValueError('failed')").ok
    assert forger.run("6 * 7").text == "42"
