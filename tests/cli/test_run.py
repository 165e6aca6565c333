"""`cloche run`, as a shell uses it: a real process, its streams and its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CLOCHE = str(Path(sys.prefix) / "bin" / "cloche")

pytestmark = pytest.mark.usefixtures("jail")


def cloche(*words: str, stdin: str | bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run([CLOCHE, *words], input=given, capture_output=True, timeout=60, cwd=cwd, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_code_from_the_command_line():
    done = cloche("run", "-c", "print(6 * 7)")

    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)


def test_code_from_a_file_with_arguments(tmp_path):
    (tmp_path / "greet.py").write_text("import sys; print(sys.argv[1:])")

    done = cloche("run", "greet.py", "one two", "--three", cwd=tmp_path)

    assert (done.stdout, done.returncode) == ("['one two', '--three']\n", 0)


def test_arguments_after_code():
    done = cloche("run", "-c", "import sys; print(sys.argv[1:])", "a", "-b")

    assert done.stdout == "['a', '-b']\n"


def test_the_language_is_told_from_the_files_name(tmp_path):
    (tmp_path / "hello.sh").write_text('echo "$BASH"; exit 3')

    done = cloche("run", str(tmp_path / "hello.sh"))

    assert (done.stdout, done.returncode) == ("/usr/bin/bash\n", 3)


def test_a_program_from_standard_input():
    done = cloche("run", "--language", "bash", "-", stdin="echo from standard input")

    assert done.stdout == "from standard input\n"


def test_standard_input_reaches_the_program():
    done = cloche("run", "-c", "import sys; print(len(sys.stdin.buffer.read()))", stdin=b"\xff" * 3_000_000)

    assert done.stdout == "3000000\n"


@pytest.mark.parametrize("program", ["import sys; sys.exit(7)", "import os; os._exit(7)"])
def test_the_exit_code_is_the_programs(program):
    assert cloche("run", "-c", program).returncode == 7


def test_a_traceback_is_all_that_an_error_prints():
    done = cloche("run", "-c", "1 / 0")

    assert done.returncode == 1
    assert done.stderr.startswith('Traceback (most recent call last):\n  File "/sandbox/code/main.py", line 1')
    assert "cloche:" not in done.stderr


def test_time_that_is_up_is_exit_code_124():
    done = cloche("run", "-c", "print('begun', flush=True)\nwhile True: pass", "--timeout", "0.5")

    assert (done.stdout, done.returncode) == ("begun\n", 124)
    assert "cloche: timeout:" in done.stderr


def test_too_much_memory_is_exit_code_137():
    done = cloche("run", "-c", "x = bytearray(300 << 20)", "--memory", "64M")

    assert done.returncode == 137
    assert "cloche: memory:" in done.stderr


def test_files_and_variables_go_in(tmp_path):
    (tmp_path / "a.csv").write_text("x,y")
    code = "import os; print(open('data/in.csv').read(), os.environ['NAME'], repr(os.environ['EMPTY']))"

    done = cloche("run", "--file", f"{tmp_path}/a.csv:data/in.csv", "--env", "NAME=a=b", "--env", "EMPTY=", "-c", code)

    assert done.stdout == "x,y a=b ''\n"


def test_a_folder_can_be_mounted(tmp_path):
    (tmp_path / "a.txt").write_text("from the host")

    done = cloche("run", "--mount", f"{tmp_path}:/sandbox/in", "-c", "print(open('/sandbox/in/a.txt').read())")

    assert done.stdout == "from the host\n"


def test_the_result_as_json():
    done = cloche("run", "--json", "-c", "print('out'); 1 / 0")
    result = json.loads(done.stdout)

    assert done.returncode == result["exit_code"] == 1
    assert (result["stdout"], result["truncated"], result["wall"]) == ("out\n", False, "jail")
    assert result["error"]["kind"] == "runtime"
    assert result["error"]["name"] == "ZeroDivisionError"
    assert result["error"]["hint"]
    assert result["duration"] > 0
    assert result["memory_peak"] > 0


def test_statistics_go_to_standard_error():
    done = cloche("run", "--stats", "-c", "print(1)")

    assert done.stdout == "1\n"
    assert done.stderr.startswith("exit 0 · ")
    assert done.stderr.endswith(" MB · jail\n")


def test_output_is_passed_on_as_it_happens():
    with subprocess.Popen(
        [CLOCHE, "run", "-c", "print('first'); input(); print('second')"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"  # the program waits for us, so this came while it ran
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.stdout.readline() == b"second\n"
        assert process.wait(30) == 0


# Python would not see a signal that comes right before a long wait.
WAITS = (
    "import time\ntry:\n    print('ready', flush=True)\n    while True: time.sleep(0.05)\nexcept KeyboardInterrupt:\n"
)


def test_an_interrupt_reaches_the_program():
    with subprocess.Popen(
        [CLOCHE, "run", "-c", f"{WAITS}    print('bye')"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == b"bye\n"
        assert process.wait(30) == 0


def test_the_second_interrupt_is_for_us():
    stubborn = f"{WAITS}    print('not yet', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([CLOCHE, "run", "-c", stubborn], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.stdout.readline() == b"not yet\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 130


def test_standard_input_need_not_be_open():
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{CLOCHE}" run -c "print(1)" <&-'], capture_output=True, timeout=60, check=False
    )

    assert done.stdout == b"1\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run"], 125, "There is nothing to run."),
        (["run", "no/such/file.py"], 125, "cannot be read"),
        (["run", "-c", "1", "--language", "cobol"], 125, "Known languages: bash, c, "),
        (["run", "-c", "1", "--memory", "lots"], 125, "not a size"),
        (["run", "-c", "1", "--env", "novalue"], 125, "K=V"),
        (["run", "-c", "1", "--file", "nowhere"], 125, "SRC:DEST"),
        (["run", "-c", "1", "--mount", "/etc:/sandbox/etc"], 125, "never given"),
        (["run", "--timeout", "soon", "-c", "1"], 2, "cloche run --help"),
        (["run", "--tiemout", "1", "-c", "1"], 2, "--help"),
        (["sprint"], 2, "run"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_says_what_to_do(words, code, said):
    done = cloche(*words)

    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("cloche: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [[], ["--help"], ["run", "--help"], ["doctor", "--help"], ["serve", "--help"]])
def test_help_is_there(words):
    done = cloche(*words)

    assert done.returncode == 0
    assert "usage" in done.stdout.lower()


def test_the_version():
    assert cloche("--version").stdout.startswith("cloche 0.")


def test_the_language_of_a_file_is_told_from_its_name_or_contents(tmp_path):
    (tmp_path / "main.js").write_text("console.log([1, 2].length)")
    (tmp_path / "script").write_text("#!/bin/bash\necho $((6 * 7))\n")
    (tmp_path / "odd").write_text("print(1)")
    assert cloche("run", str(tmp_path / "main.js")).stdout == "2\n"
    assert cloche("run", str(tmp_path / "script")).stdout == "42\n"
    assert cloche("run", str(tmp_path / "odd")).stdout == "1\n"
