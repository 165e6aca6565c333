"""`cloche ls`, `exec`, `shell`, `cp`, `logs` and `kill`, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import CLOCHE
from tests.cli.terminal import Terminal
from tests.conftest import Server

import cloche

HOSTILE = """
import os
os.makedirs("tree/deep")
open("tree/plain.txt", "w").write("plain")
open("tree/deep/b.bin", "wb").write(bytes(300_000))
open("tree/.hidden", "w").write("hidden")
os.symlink("/etc/passwd", "tree/link")
os.symlink("/etc", "tree/etc")
os.mkfifo("tree/pipe")
open("tree/\\x1b[31mred", "w").write("x")
open("tree/over\\u202egnp.exe", "w").write("x")
open("big", "wb").truncate(1 << 20)
print("done")
"""


def environment(server: Server) -> dict[str, str]:
    return {**os.environ, "CLOCHE_URL": server.url, "CLOCHE_API_KEY": server.key}


def run(server: Server, *words: str, stdin: bytes = b"", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [CLOCHE, *words], input=stdin, capture_output=True, timeout=60, check=False, env=environment(server), cwd=cwd
    )
    out, err = (stream.decode("utf-8", "backslashreplace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


@pytest.fixture(scope="module")
def named(server: Server) -> Iterator[cloche.Sandbox]:
    """A sandbox with a name, in which something has run."""
    with cloche.Sandbox(url=server.url, api_key=server.key, metadata={"name": "worker"}) as box:
        box.run("x = 6 * 7; x")
        yield box


def test_a_sandbox_is_listed_and_found_by_its_name_or_the_beginning_of_its_id(
    server: Server, named: cloche.Sandbox
) -> None:
    assert named.id is not None
    lines = run(server, "ls").stdout.splitlines()
    (row,) = [line for line in lines if line.startswith(named.id[:16])]
    assert lines[0].split() == ["id", "name", "age", "left", "contexts", "state", "CPU", "memory"]
    assert row.split()[1:2] + row.split()[6:8] == ["worker", "python", "alive"]
    assert "MB of 537 MB" in row
    (entry,) = [each for each in json.loads(run(server, "ls", "--json").stdout) if each["id"] == named.id]
    assert entry["usage"]["memory"] > 1_000_000
    assert entry["contexts"] == ["python"]
    for word in ("worker", named.id, named.id[:16], named.id[4:16]):
        assert run(server, "exec", word, "echo", "found").stdout == "found\n"
    done = run(server, "exec", "wroker", "true")
    assert (done.returncode, done.stderr.splitlines()) == (
        125,
        ["cloche: There is no living sandbox 'wroker'.", "Did you mean worker?"],
    )


def test_a_list_without_entries_says_so(server: Server) -> None:
    # Another owner's key sees nobody else's sandboxes.
    with server.client() as http:
        key = http.post("/v1/keys", json={"owner": "newcomer", "name": "for a test"}).json()["key"]
    done = run(server, "ls", "--api-key", key)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("There are no living sandboxes.  `cloche shell` makes one, ")
    assert json.loads(run(server, "ls", "--json", "--api-key", key).stdout) == []
    with cloche.Sandbox(url=server.url, api_key=key, metadata={"name": "quiet"}):
        assert "nothing has run in this sandbox yet" in run(server, "logs", "quiet", "--api-key", key).stdout


def test_a_word_that_may_mean_several_sandboxes_is_refused(server: Server, named: cloche.Sandbox) -> None:
    with cloche.Sandbox(url=server.url, api_key=server.key) as other:
        done = run(server, "kill", "-y", "sbx_")
        assert done.returncode == 125
        assert "may mean" in done.stderr
        assert other.run("1").text == "1"
    assert named.run("x").text == "42"


def test_exec_passes_on_input_output_and_the_exit_code(server: Server, named: cloche.Sandbox) -> None:
    done = run(server, "exec", "-i", "worker", "--", "sh", "-c", "cat; echo problem >&2; exit 7", stdin=b"given\xff")
    assert (done.stdout, done.stderr, done.returncode) == ("given\\xff", "problem\n", 7)
    # Without -i nothing is read, also where the option comes after the sandbox.
    assert run(server, "exec", "worker", "cat", stdin=b"given").stdout == ""
    assert run(server, "exec", "worker", "-i", "--", "cat", stdin=b"given").stdout == "given"
    done = run(server, "exec", "worker", "no-such-command")
    assert (done.returncode, "there is no program no-such-command" in done.stderr) == (125, True)
    assert run(server, "exec", "worker").returncode == 125


def test_an_interrupt_is_for_the_command(server: Server, named: cloche.Sandbox) -> None:
    code = "trap 'echo interrupted; exit 3' INT; echo ready; while :; do read -t 1 line < /dev/zero; done"
    command = [CLOCHE, "exec", "worker", "bash", "-c", code]
    with subprocess.Popen(command, env=environment(server), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(30) == 3


def test_a_shell_has_the_callers_terminal_and_its_sandbox_ends_with_it(server: Server) -> None:
    terminal = Terminal("--name", "for-a-shell", command="shell", env=environment(server))
    terminal.type(b"stty size; tty; echo the''end\r").until(b"theend").until(b"33 101").until(b"/dev/pts/")
    terminal.resize(90, 20)
    terminal.type(b"until [ \"$(stty size)\" = '20 90' ]; do sleep 0.05; done; echo re''sized\r").until(b"resized")
    terminal.type(b"exit 5\r")
    assert terminal.end() == 5
    assert "for-a-shell" not in run(server, "ls").stdout
    done = run(server, "shell", "--keep", "--name", "kept", stdin=b"echo $((6 * 7)) > answer\n")
    assert done.returncode == 0, done.stderr
    identity = done.stderr.split()[-1]
    assert run(server, "shell", "kept", stdin=b"cat answer; exit 4\n").stdout == "42\n"
    assert run(server, "kill", "kept").returncode == 125  # there is no terminal to ask on
    asked = Terminal("kept", command="kill", env=environment(server)).until(b"[y/N] ").type(b"n\r")
    assert asked.end() == 1
    assert run(server, "kill", "-y", "kept").stdout == f"{identity}\n"
    assert "kept" not in run(server, "ls").stdout
    assert "kept" in run(server, "ls", "--all").stdout


def test_files_and_folders_are_copied_in_and_out(server: Server, named: cloche.Sandbox, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "tool").write_text("#!/bin/sh\necho tool\n")
    (source / "tool").chmod(0o755)
    (source / "letters").write_bytes(os.urandom(3_000_000))
    assert run(server, "cp", "source", "worker:there", cwd=tmp_path).returncode == 0
    (source / "loop").symlink_to(source)
    done = run(server, "cp", "source", "worker:again", cwd=tmp_path)
    assert (done.returncode, "source/loop is neither" in done.stderr) == (1, True)
    assert run(server, "exec", "worker", "there/tool").stdout == "tool\n"
    assert run(server, "exec", "worker", "ls", "there").stdout.split() == ["empty", "letters", "tool"]
    done = run(server, "cp", "worker:there", "copy", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "copy" / "letters").read_bytes()) == (0, (source / "letters").read_bytes())
    run(server, "cp", "source/tool", "worker:/tmp/", cwd=tmp_path)
    assert run(server, "cp", "worker:/tmp/tool", "-").stdout == "#!/bin/sh\necho tool\n"
    assert run(server, "cp", "-", "worker:typed", stdin=b"typed\xff").returncode == 0
    assert run(server, "cp", "worker:typed", ".", cwd=tmp_path).returncode == 0
    assert (tmp_path / "typed").read_bytes() == b"typed\xff"
    for words, said in (
        (("worker:nothing", "x"), "nothing"),
        (("nothing", "worker:x"), "There is no nothing here"),
        (("a", "b"), "One side"),
        (("worker:there", "-"), "A folder cannot"),
        (("worker:typed", "no/such/folder/x"), "does not exist"),
    ):
        done = run(server, "cp", *words, cwd=tmp_path)
        assert done.returncode == 125, words
        assert said in done.stderr


def test_nothing_hostile_comes_out_of_a_sandbox(server: Server, named: cloche.Sandbox, tmp_path: Path) -> None:
    named.run_program(HOSTILE)
    (tmp_path / "copy").mkdir()
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "copy" / "tree").mkdir()
    (tmp_path / "copy" / "tree" / "plain.txt").symlink_to(tmp_path / "precious")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "copy" / "tree" / "deep").symlink_to(tmp_path / "elsewhere")
    done = run(server, "cp", "worker:tree", "copy", cwd=tmp_path)
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr
    found = {path.name for path in (tmp_path / "copy" / "tree").iterdir()}
    assert found == {"plain.txt", "deep"}
    assert (tmp_path / "copy" / "tree" / "plain.txt").read_text() == "plain"
    assert not (tmp_path / "copy" / "tree" / "plain.txt").is_symlink()
    assert (tmp_path / "precious").read_text() == "kept"
    assert not list((tmp_path / "elsewhere").iterdir())  # a link of the caller is no way out of the target either
    for name in ("link: it is a link", "?[31mred", "over?gnp.exe", ".hidden: its name is hidden", "pipe: it is not"):
        assert name in done.stderr
    assert run(server, "cp", "--hidden", "worker:tree", "all", cwd=tmp_path).returncode == 1
    assert (tmp_path / "all" / ".hidden").read_text() == "hidden"
    assert (tmp_path / "all" / "deep" / "b.bin").stat().st_size == 300_000
    # A link that the caller names is followed by the sandbox, to a file of its own.
    assert run(server, "cp", "worker:tree/link", "passwd", cwd=tmp_path).returncode == 0
    assert (tmp_path / "passwd").read_text() != Path("/etc/passwd").read_text()


def test_names_cannot_write_to_the_terminal(server: Server) -> None:
    name = "\x1b]0;owned\x07\u202eevil"
    with cloche.Sandbox(url=server.url, api_key=server.key, metadata={"name": name}) as box:
        box.commands.run(["echo", "\x1b[2J"])
        assert box.id is not None
        for words in (("ls",), ("ls", "--json"), ("ls", "--all"), ("exec", "nothing-like-it", "true")):
            done = run(server, *words)
            assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout + done.stderr), words
        command = box.commands.start(["true", "\x1b[31mred"])
        command.wait()
        head = [line for line in run(server, "logs", box.id).stdout.splitlines() if "$ true" in line]
        assert head[0].endswith("$ true ?[31mred")


def test_logs_show_what_has_run_and_follow_it(server: Server) -> None:
    box = cloche.Sandbox(url=server.url, api_key=server.key, metadata={"name": "logged"})
    box.run("print('printed'); 6 * 7")
    box.run("1 / 0")
    box.commands.start(["sh", "-c", "echo out; echo err >&2; exit 3"]).wait()
    text = run(server, "logs", "logged").stdout
    places = [
        text.index(part) for part in ("printed\n", "\n42\n", "exit code 0", "ZeroDivisionError", "$ sh -c", "err\n")
    ]
    assert places == sorted(places)
    assert text.rstrip().splitlines()[-1].startswith("── exit code 3, ")
    command = [CLOCHE, "logs", "-f", "logged"]
    with subprocess.Popen(command, env=environment(server), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        before = []
        while "exit code 3" not in (line := next(lines)):
            before.append(line)
        running = box.commands.start(["sh", "-c", "echo begun; read line; echo got $line"])
        while "begun" not in next(lines):
            pass
        running.write("it\n")  # the first line has come while the command still runs
        while "got it" not in next(lines):
            pass
        running.wait()
        box.kill()
        rest = process.stdout.read()
        assert process.wait(30) == 0
    assert "printed\n" in before
    assert rest.rstrip().splitlines()[-1] == "── the sandbox has ended"
    assert "printed" in run(server, "logs", "logged").stdout  # the runs are still there


@pytest.mark.parametrize(
    "words",
    [("ls",), ("kill", "x"), ("logs", "x"), ("cp", "x:y", "z"), ("exec", "x", "y"), ("shell",), ("run", "-c", "1")],
    ids=lambda words: words[0],
)
def test_a_wrong_key_is_reported_as_a_wrong_key(server: Server, words: tuple[str, ...]) -> None:
    wrong = {**environment(server), "CLOCHE_API_KEY": "cloche_" + "w" * 43}
    done = subprocess.run([CLOCHE, *words], capture_output=True, text=True, timeout=60, env=wrong)
    assert done.returncode == 125
    assert done.stderr.splitlines() == [
        f"cloche: The server at {server.url} does not accept this API key: it is wrong, or was revoked.",
        "Set CLOCHE_API_KEY to a key of this server; `cloche key`, on its host, prints the admin's.",
    ]


def test_the_key_of_this_hosts_server_is_found_and_sent_nowhere_else(server: Server, tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    folder = str(server.folder / "data")
    for place in (["--port", str(server.port)], ["--url", server.url]):
        command = [CLOCHE, "ls", *place, "--data-dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=bare)
        assert (done.returncode, done.stdout[:2]) == (0, "id"), done.stderr
        command = [CLOCHE, "kill", *place, "--data-dir", folder, "no-such-sandbox"]  # and this is not a setting
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=bare)
        assert "There is no living sandbox 'no-such-sandbox'." in done.stderr
    from tests.client.wires import Scripted, answer

    refusal = answer(401, '{"error": {"kind": "unauthorized", "message": "", "hint": "", "details": {}}}')
    with Scripted([refusal]) as elsewhere:
        url = elsewhere.url.replace("127.0.0.1", "127.1")  # by another name, so that it seems to be elsewhere
        command = [CLOCHE, "ls", "--url", url, "--data-dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=bare)
        (request,) = elsewhere.requests
        assert b"authorization" not in request.lower()
    assert "needs an API key" in done.stderr
    assert server.key not in done.stderr
    done = subprocess.run([CLOCHE, "ls", "--data-dir", str(tmp_path)], capture_output=True, text=True, env=bare)
    assert (done.returncode, "cloche serve" in done.stderr) == (125, True)
