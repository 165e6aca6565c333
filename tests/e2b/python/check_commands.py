"""Commands: run, listened to, fed, killed, connected to."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from e2b_code_interpreter import AsyncSandbox, Sandbox

from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    SandboxException,
    SandboxNotRunningException,
    TimeoutException,
)


def test_a_command_runs_at_home_as_user(shared: Sandbox) -> None:
    result = shared.commands.run("pwd; /bin/pwd; echo $HOME $USER $LOGNAME; whoami; echo $E2B_SANDBOX $E2B_SANDBOX_ID")

    home, *rest = result.stdout.splitlines()
    assert (home, rest) == ("/home/user", ["/home/user", "/home/user user user", "user", f"true {shared.sandbox_id}"])
    assert (result.stderr, result.exit_code, result.error) == ("", 0, None)


def test_root_has_a_name_and_a_home_of_its_own_and_no_more(shared: Sandbox) -> None:
    result = shared.commands.run("pwd; echo $HOME; whoami; touch here && ls", user="root")
    assert result.stdout == "/root\n/root\nroot\nhere\n"
    assert shared.commands.run("sudo whoami; sudo -u user -E whoami; sudo A=1 sh -c 'echo $A $HOME'").stdout == (
        "root\nuser\n1 /root\n"
    )
    with pytest.raises(CommandExitException) as refused:
        shared.commands.run("sudo -n touch /etc/motd")
    assert "Read-only file system" in refused.value.stderr
    with pytest.raises(AuthenticationException):
        shared.commands.run("true", user="somebody")


def test_how_a_command_fails(shared: Sandbox) -> None:
    with pytest.raises(CommandExitException) as failed:
        shared.commands.run("echo out; echo err >&2; exit 3")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.stderr) == (3, "out\n", "err\n")
    assert failed.value.error == "exit status 3"
    with pytest.raises(CommandExitException) as killed:
        shared.commands.run("kill -9 $$")
    assert (killed.value.exit_code, killed.value.error) == (-1, "signal: killed")
    with pytest.raises(CommandExitException) as exited:
        shared.commands.run("exit 137")
    assert (exited.value.exit_code, exited.value.error) == (137, "exit status 137")
    with pytest.raises(InvalidArgumentException):
        shared.commands.run("true", cwd="/nowhere")


def test_variables_and_the_working_directory_are_chosen() -> None:
    with Sandbox.create(envs={"A": "box", "B": "box", "HOME": "/tmp"}) as sandbox:
        result = sandbox.commands.run("echo $A $B $HOME; pwd", envs={"B": "call"}, cwd="/tmp")
        assert result.stdout == "box call /tmp\n/tmp\n"
        sandbox.files.make_dir("below")
        assert sandbox.commands.run("pwd", cwd="below").stdout == "/home/user/below\n"


def test_output_comes_as_it_was_written(shared: Sandbox) -> None:
    out: list[str] = []
    err: list[str] = []
    result = shared.commands.run(
        "printf ä; sleep 0.05; printf 'b\\xe2'; echo no >&2", on_stdout=out.append, on_stderr=err.append
    )
    assert result.stdout == "".join(out) == "äb\ufffd"
    assert "".join(err) == "no\n"
    assert shared.commands.run("printf 'a%.0s' $(seq 8191); printf '\\xe2'").stdout == "a" * 8191 + "\ufffd"
    many = shared.commands.run("head -c 5000000 /dev/zero | tr '\\0' x")
    assert many.stdout == "x" * 5_000_000


def test_a_command_whose_time_is_up_is_killed(shared: Sandbox) -> None:
    begin = time.monotonic()
    with pytest.raises(TimeoutException):
        shared.commands.run("sleep 77", timeout=0.5)
    assert time.monotonic() - begin < 5
    while shared.commands.list():
        assert time.monotonic() - begin < 10
    assert shared.commands.run("pgrep -f 'sleep 7[7]' || echo gone").stdout == "gone\n"


def test_a_command_in_the_background_is_listed_and_killed(shared: Sandbox) -> None:
    handle = shared.commands.run("sleep 60", background=True, envs={"X": "y"}, cwd="/tmp")

    (listed,) = shared.commands.list()
    assert (listed.pid, listed.cmd, listed.args) == (handle.pid, "/bin/bash", ["-l", "-c", "sleep 60"])
    assert (listed.envs, listed.cwd, listed.tag) == ({"X": "y"}, "/tmp", None)
    assert handle.kill()
    with pytest.raises(CommandExitException):
        shared.commands.run(f"kill -0 {handle.pid}")  # the pid is the one that it has inside
    assert not handle.kill()
    assert not shared.commands.kill(999_999)
    assert shared.commands.list() == []


def test_a_command_goes_on_without_its_listener_and_can_be_connected_to(shared: Sandbox) -> None:
    handle = shared.commands.run("read line; echo got $line; exit 5", background=True, stdin=True)
    handle.disconnect()
    again = shared.commands.connect(handle.pid)
    third = shared.commands.connect(handle.pid)
    shared.commands.send_stdin(handle.pid, "it\n")
    for one in (again, third):
        with pytest.raises(CommandExitException) as ended:
            one.wait()
        assert (ended.value.stdout, ended.value.exit_code) == ("got it\n", 5)
    with pytest.raises(CommandExitException) as late:
        shared.commands.connect(handle.pid).wait()
    assert (late.value.stdout, late.value.exit_code) == ("", 5)
    with pytest.raises(NotFoundException):
        shared.commands.connect(999_999)


def test_standard_input(shared: Sandbox) -> None:
    handle = shared.commands.run("cat", background=True, stdin=True)
    shared.commands.send_stdin(handle.pid, "Hello,\n")
    shared.commands.send_stdin(handle.pid, b"W\xc3\xb6rld!")
    shared.commands.close_stdin(handle.pid)
    shared.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "Hello,\nWörld!"
    assert shared.commands.run("cat").stdout == ""  # there is none, unless it is asked for
    idle = shared.commands.run("sleep 60", background=True)
    with pytest.raises(SandboxException, match="stdin"):
        shared.commands.send_stdin(idle.pid, "x")
    with pytest.raises(SandboxException):
        shared.pty.send_stdin(idle.pid, b"x")
    idle.kill()
    with pytest.raises(NotFoundException):
        shared.commands.send_stdin(idle.pid, "x")


async def test_standard_input_as_a_stream(async_sandbox: AsyncSandbox) -> None:
    heard = asyncio.Event()
    handle = await async_sandbox.commands.run("cat", background=True, stdin=True, on_stdout=lambda _: heard.set())
    async with async_sandbox.commands.stream_input(handle.pid) as typed:
        await typed.send("first\n")
        await asyncio.wait_for(heard.wait(), 10)  # each piece arrives before the stream ends
        for _ in range(60):
            await typed.send(b"x" * 100_000)  # more than all the pipes on the way there and back can hold
    await async_sandbox.commands.close_stdin(handle.pid)
    assert (await handle.wait()).stdout == "first\n" + "x" * 6_000_000
    nobody = async_sandbox.commands.stream_input(999_999)
    with pytest.raises(NotFoundException):
        await nobody.close()


async def test_asyncio(async_sandbox: AsyncSandbox) -> None:
    out: list[str] = []
    result = await async_sandbox.commands.run("echo 1; echo 2 >&2", on_stdout=out.append)
    assert (result.stdout, result.stderr, out) == ("1\n", "2\n", ["1\n"])
    handle = await async_sandbox.commands.run("sleep 60", background=True)
    assert [one.pid for one in await async_sandbox.commands.list()] == [handle.pid]
    await handle.disconnect()
    again = await async_sandbox.commands.connect(handle.pid)
    assert again.pid == handle.pid
    assert await again.kill()
    with pytest.raises(CommandExitException) as killed:
        await again.wait()
    assert killed.value.exit_code == -1
    with pytest.raises(TimeoutException):
        await async_sandbox.commands.run("sleep 60", timeout=0.3)
    results = await asyncio.gather(*(async_sandbox.commands.run(f"echo {number}") for number in range(20)))
    assert [one.stdout for one in results] == [f"{number}\n" for number in range(20)]


def test_a_sandbox_that_is_killed_takes_its_commands_along() -> None:
    sandbox = Sandbox.create()
    handle = sandbox.commands.run("sleep 60", background=True)
    problems: list[Exception] = []

    def wait() -> None:
        try:
            handle.wait()
        except Exception as problem:
            problems.append(problem)

    waiting = threading.Thread(target=wait)
    waiting.start()
    sandbox.kill()
    waiting.join(20)

    assert not isinstance(problems[0], CommandExitException)
    assert isinstance(problems[0], SandboxNotRunningException)
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("true")
