"""Policies: rules and presets, their change under running programs, the log, and package managers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.network.inside import prepare, told
from tests.network.outside import World
from tests.network.world import GREETING

import cloche
from cloche.errors import InvalidRun
from cloche.packages import indexes as package_indexes

CUT_S = 0.05  # within which a replaced policy is in force
REFUSED = (403, "ConnectionResetError")  # in words, if a client on an unusual port speaks soon enough
SHUT = "ConnectionRefusedError"  # by the kernel: no listener
PIP_PACKAGE, NPM_PACKAGE, CRATE = "iniconfig", "ms", "itoa"  # small ones that sandboxes do not have


@pytest.fixture(scope="module")
def changing(world: World) -> Iterator[cloche.Sandbox]:
    """A sandbox whose policy each test replaces."""
    with cloche.Sandbox(network=["world.test"]) as box:
        yield prepare(box)


LOOPBACK = ("127.0.0.1", 80)  # the sandbox's own, and no matter of the policy
# "ADDRESS" stands for the world's address.
POLICIES: dict[str, tuple[Any, dict[tuple[str, int], int | str]]] = {
    "a name": (
        ["world.test"],
        {
            ("world.test", 80): 200,
            ("WORLD.test", 80): 200,
            ("api.world.test", 80): 403,
            ("world.test", 8080): SHUT,
            ("192.0.2.1", 80): 403,
        },
    ),
    "names below one": (["*.world.test"], {("api.world.test", 80): 200, ("world.test", 80): 403}),
    "a port": (["world.test:8080"], {("world.test", 8080): 200, ("other.test", 8080): 403, ("world.test", 80): SHUT}),
    "any name": (["*:8080"], {("other.test", 8080): 200, ("192.0.2.1", 8080): 403}),
    "closed addresses": (["10.1.0.0/16", "closed.test"], {("10.1.2.3", 80): 403, ("closed.test", 80): 403}),
    "public": (
        "public",
        {
            ("world.test", 80): 200,
            ("closed.test", 80): 403,
            ("10.1.2.3", 80): 403,
            ("169.254.169.254", 80): 403,
            LOOPBACK: "ConnectionResetError",
        },
    ),
    "a denied name": (
        {"allow": "public", "deny": ["api.world.test", "other.test:443"]},
        {("world.test", 80): 200, ("api.world.test", 80): 403, ("other.test", 80): 200},
    ),
    "denied addresses": (
        {"allow": ["world.test"], "deny": ["ADDRESS/32"]},
        {("world.test", 80): 403},
    ),
    "nothing": ("none", {("world.test", 80): "gaierror"}),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_says_what_a_sandbox_reaches(changing: cloche.Sandbox, world: World, name: str):
    def put(text: Any) -> Any:
        if isinstance(text, str):
            return text.replace("ADDRESS", world.address)
        return (
            {key: put(each) for key, each in text.items()} if isinstance(text, dict) else [put(each) for each in text]
        )

    policy, expected = POLICIES[name]
    before, logged = world.count(), changing.network.log()
    changing.network.replace(put(policy))
    answers = told(changing, f"{{each: reach(*each) for each in {list(expected)}}}")
    unusual = {each: 403 for each, answer in answers.items() if answer in REFUSED and each[1] not in (80, 443)}
    assert {**answers, **unusual} == expected
    arrived = [(event["host"].lower(), event["port"]) for event in world.events(before)]
    assert arrived == [(host.lower(), port) for (host, port), answer in expected.items() if answer == 200]
    # The log has the same, but for those that the kernel refused, and the sandbox's own loopback.
    shown = [
        ((attempt.host, attempt.port), attempt.verdict)
        for attempt in changing.network.log(logged[-1].number if logged else 0)
    ]
    assert shown == [
        ((host.lower(), port), "allowed" if answer == 200 else "refused")
        for (host, port), answer in expected.items()
        if answer in (200, 403)
    ]


HINTS: dict[str, tuple[Any, str, str, str]] = {
    "a host that can be allowed": (["world.test"], "other.test", 'network=["other.test"]', "other.test"),
    "a denied host": ({"allow": "public", "deny": ["other.test"]}, "other.test", "Remove the rule other.test", ""),
    "a closed address": (["world.test"], "10.1.2.3", "Only the operator", ""),
    "a name that leads to one": (["closed.test"], "closed.test", "Only the operator", ""),
    "a host that is not there": (["nowhere.invalid"], "nowhere.invalid", "Check the name and the port", ""),
    "nothing": ("none", "world.test", "pass the data in as files, or allow the host with network=.", ""),
}


@pytest.mark.parametrize("what", HINTS)
def test_the_hint_says_what_can_be_done_and_the_attempt_which_rule_would_allow_it(changing: cloche.Sandbox, what: str):
    policy, host, hint, rule = HINTS[what]
    changing.network.replace(policy)
    result = changing.run(f"import urllib.request\nurllib.request.urlopen('http://{host}/', timeout=5)")
    assert result.error is not None
    assert hint in result.error.hint
    assert [each.allow for each in result.network if each.host == host] in ([rule], [])


def test_an_address_without_a_name_needs_a_rule_for_addresses(world: World, monkeypatch: pytest.MonkeyPatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # which sends nothing
        except OSError:
            pytest.skip("this host has no address besides loopback")
        own = probe.getsockname()[0]
    with socket.create_server((own, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("CLOCHE_NETWORK_PRIVATE", f"{own}/32")
        with cloche.Sandbox(network=[f"world.test:{port}"]) as box:
            prepare(box)
            connect = f"reach('{own}', {port})"
            assert told(box, connect) in REFUSED
            box.network.replace([f"{own}/32:{port}"])
            running = box.start_program(f"import socket; print(socket.create_connection(('{own}', {port})).recv(9))")
            server.settimeout(10)
            with server.accept()[0] as connection:
                connection.sendall(b"hello")
            assert running.wait().stdout == "b'hello'\n"
            monkeypatch.delenv("CLOCHE_NETWORK_PRIVATE")
            box.network.replace([f"{own}/32:{port}"])
            assert told(box, connect) in REFUSED
            assert "closed" in box.network.log()[-1].reason


def test_the_policy_can_be_read_and_changed_by_parts(changing: cloche.Sandbox):
    changing.network.replace(cloche.Network(allow=["world.test"], rate="100M"))
    shown = changing.network.allow("other.test:8080", "other.test:8080")
    assert shown == changing.network.policy()
    assert shown.requested == cloche.Network(allow=["world.test", "other.test:8080"], rate="100M") == shown.effective
    answers = told(changing, "[reach('other.test', 8080), reach('other.test'), reach('world.test')]")
    assert answers == [200, 403, 200]
    assert changing.network.deny("world.test").effective.deny == ("world.test",)
    assert told(changing, "reach('other.test', 8080), reach('world.test')") == (200, 403)
    with pytest.raises(InvalidRun):
        changing.network.allow("https://world.test/")
    assert changing.network.policy().requested.deny == ("world.test",)


def test_an_open_connection_that_is_no_longer_allowed_is_cut_at_once(changing: cloche.Sandbox):
    late = []
    for _ in range(3):  # on a busy host, another process may be in the way once
        changing.network.replace([f"world.test:{GREETING}", f"other.test:{GREETING}"])
        held = f"watch, other = Watch(hold('world.test', {GREETING})), hold('other.test', {GREETING})"
        assert told(changing, "watch.ended", held) is None
        begin = time.monotonic()
        changing.network.deny("world.test")
        ended = told(changing, "watch.ended", "watch.join(10)")
        assert ended is not None
        late.append(ended - begin)
        assert told(changing, "repeated(other)")  # which is still allowed
        lost = changing.network.log()[-2]
        assert (lost.host, lost.verdict) == ("world.test", "allowed")
        assert "changed" in lost.reason
    assert min(late) < CUT_S


def test_a_running_program_reaches_a_host_that_is_allowed_later(world: World):
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        program = (
            "import socket, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
            f"print(socket.create_connection(('other.test', {GREETING}), 10).recv(3))"
        )
        running = box.start_program(program)
        events = iter(running)
        assert next(event for event in events if event.kind == "stdout").text == "ready\n"
        box.network.allow(f"other.test:{GREETING}")  # a port that nothing listened on
        running.write("go\n")
        assert running.wait().stdout == "ready\nb'220'\n"


def test_a_port_that_a_program_has_already_cannot_be_allowed(world: World):
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        server = f"server = socket.create_server(('127.0.0.1', {GREETING}))"
        assert told(box, "server.getsockname()[1]", server) == GREETING
        before = box.network.policy()
        with pytest.raises(InvalidRun, match=str(GREETING)):
            box.network.allow(f"other.test:{GREETING}")
        assert box.network.policy() == before
        assert told(box, "reach('world.test')") == 200
        box.run("server.close()")
        box.network.allow(f"other.test:{GREETING}")
        assert told(box, f"repeated(hold('other.test', {GREETING}))")


def test_a_result_has_the_attempts_of_its_run_and_the_log_has_all(changing: cloche.Sandbox):
    changing.network.replace(["world.test"])
    first = changing.run("print(reach('world.test'), reach('other.test'))")
    second = changing.run("print(reach('world.test', path='/bytes/100000'))")
    assert first.stdout == "200 403\n"
    allowed, refused = first.network
    assert (allowed.verdict, allowed.rule, allowed.reason) == ("allowed", "world.test", "")
    assert (refused.verdict, refused.rule, refused.bytes_down) == ("refused", "", 0)
    (only,) = second.network
    assert only.bytes_up > 50
    assert 0 < only.duration < 10
    assert abs(only.time - time.time()) < 60
    log = changing.network.log()
    assert [each.number for each in log[-3:]] == [allowed.number, refused.number, only.number]
    assert [each.number for each in changing.network.log(since=refused.number)] == [only.number]


def test_programs_that_want_a_proxy_find_one(world: World, trust: dict[str, str]):
    proxy = "http://127.0.0.1:3128"
    mounts = {str(world.ca): trust["SSL_CERT_FILE"]}
    variables = {**trust, "HTTP_PROXY": proxy, "http_proxy": proxy, "HTTPS_PROXY": proxy}
    with cloche.Sandbox(network=["world.test"], env=variables, mounts=mounts) as box:
        for scheme, port in (("http", 80), ("https", 443)):
            result = box.commands.run(f"curl -sS {scheme}://world.test/")
            assert "Hello from outside." in result.stdout, result.stderr
            assert [(each.host, each.port, each.verdict) for each in result.network] == [
                ("world.test", port, "allowed")
            ]
            result = box.commands.run(f"curl -sS --fail {scheme}://other.test/")
            assert result.error.kind == "network", result
            assert [(each.host, each.port, each.verdict) for each in result.network] == [
                ("other.test", port, "refused")
            ]


def test_a_single_run_has_a_policy_too(world: World):
    code = "import urllib.request\nprint(urllib.request.urlopen('http://{}/').status)"
    assert cloche.run(code.format("world.test"), network=["world.test"]).stdout == "200\n"
    refused = cloche.run(code.format("other.test"), network=["world.test"])
    assert refused.error.kind == "network"
    assert "other.test" in refused.error.message
    assert [each.verdict for each in refused.network] == ["refused"]


async def test_the_same_holds_for_asyncio(world: World):
    async with cloche.AsyncSandbox(network=["world.test"]) as box:
        code = "import urllib.request\nprint(urllib.request.urlopen('http://{}/').status)"
        assert (await box.run(code.format("world.test"))).stdout == "200\n"
        assert (await box.run(code.format("other.test"))).error.kind == "network"
        await box.network.allow("other.test")
        assert (await box.run(code.format("other.test"))).stdout == "200\n"
        await box.network.deny("world.test")
        assert (await box.run(code.format("world.test"))).error.kind == "network"
        await box.network.replace(None)
        assert (await box.network.policy()).effective.is_none
        assert [each.verdict for each in await box.network.log()] == ["allowed", "refused", "allowed", "refused"]


def test_a_tool_without_an_index_of_its_own_names_a_real_host(changing: cloche.Sandbox):
    changing.network.replace(["world.test"])
    result = changing.commands.run(f"pip install -q --no-cache-dir --target /tmp/default {PIP_PACKAGE}")
    assert result.error.kind == "network", result.stderr
    assert ".invalid" not in f"{result.error}{result.stderr}"


def host_can(command: list[str], folder: Path) -> None:
    """Skip, unless on CI, where the host's own tool cannot do it either."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no packages on this host: {problem}")


def test_packages_are_installed_from_the_hosts_indexes_and_from_nowhere_else(world: World, tmp_path: Path):
    pip = ["install", "--no-cache-dir", "--no-deps", "--target"]
    host_can([sys.executable, "-m", "pip", "download", "-q", "--no-deps", PIP_PACKAGE], tmp_path)
    host_can(["npm", "view", NPM_PACKAGE, "version"], tmp_path)
    host_can(["cargo", "info", "-q", CRATE], tmp_path)
    hosts = set(package_indexes.find().hosts)
    with cloche.Sandbox(network="packages", timeout=60, memory="1G") as box:
        prepare(box)
        done = box.commands.run(["pip", *pip, "/tmp/installed", PIP_PACKAGE])
        assert done.error is None, done.stderr
        assert any((each.host, each.port) in hosts for each in done.network)
        done = box.commands.run(f"mkdir /tmp/own && cd /tmp/own && npm install {NPM_PACKAGE} && ls node_modules")
        assert done.error is None, done.stderr
        assert NPM_PACKAGE in done.stdout.split()
        done = box.commands.run(f"cargo new -q --lib /tmp/user && cd /tmp/user && cargo add -q {CRATE} && cargo fetch")
        assert done.error is None, done.stderr
        assert {(each.host, each.port) for each in box.network.log() if each.verdict == "allowed"} <= hosts
        before = world.count()
        assert told(box, "[reach('world.test', 443), reach('169.254.169.254', 443)]") == [403, 403]
        assert [each.verdict for each in box.network.log()[-2:]] == ["refused"] * 2
        assert world.count() == before
