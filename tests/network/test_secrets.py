"""A program uses a secret and never sees it: the value is in requests to its own hosts, and nowhere in a sandbox."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from array import array
from collections.abc import Iterator
from secrets import token_hex

import pytest
from tests.network.outside import World

import cloche
from cloche import Network, Secret
from cloche.engine import egress_process

CANARY = f"canary-{token_hex(16)}"
MARK = f"marked-{token_hex(16)}"  # in the sandbox: what finds this would find the canary
PAGE = os.sysconf("SC_PAGE_SIZE")
HOSTS = ("world.test", "world.test:8443", "world.test:8080")
JAVA = """
import java.net.*; import java.net.http.*;
class Main { public static void main(String[] a) throws Exception {
  var request = HttpRequest.newBuilder(URI.create("https://world.test/echo"))
      .header("X-Token", System.getenv("TOKEN")).build();
  System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body()); } }
"""
CLIENTS = {
    "curl": 'curl -sS -H "X-Token: $TOKEN" https://world.test/echo',
    "curl, another port": 'curl -sS -H "X-Token: $TOKEN" https://world.test:8443/echo',
    "curl without TLS": 'curl -sS -H "X-Token: $TOKEN" http://world.test/echo http://world.test:8080/echo',
    "wget": 'wget -qO- --header "X-Token: $TOKEN" https://world.test/echo',
    "requests": 'python3 -c "import os, requests; '
    "print(requests.get('https://world.test/echo', headers={'X-Token': os.environ['TOKEN']}).text)\"",
    "node": "node -e \"fetch('https://world.test/echo', {headers: {'X-Token': process.env.TOKEN}})"
    '.then(r => r.text()).then(console.log)"',
    "java": f"echo '{JAVA}' > /tmp/Main.java; java /tmp/Main.java",
    "through the proxy": 'curl -sS -x http://127.0.0.1:3128 -H "X-Token: $TOKEN" https://world.test/echo',
}
# Everything that a program can read: memory and environment of all processes, and all files but the host's.
SEARCH = """
import glob, os, re, sys
wanted = sys.argv[1].encode()
found = []
for folder in glob.glob('/proc/[0-9]*'):
    for name in ('environ', 'cmdline'):
        try:
            if wanted in open(f'{folder}/{name}', 'rb').read() and int(folder[6:]) != os.getpid():
                found.append(f'{folder}/{name}')
        except OSError:
            pass
    if int(folder[6:]) == os.getpid():
        continue
    try:
        memory, maps = open(f'{folder}/mem', 'rb', 0), open(f'{folder}/maps').read()
    except OSError:
        continue
    for first, last in re.findall('^([0-9a-f]+)-([0-9a-f]+) r', maps, re.M):
        try:
            place, end = int(first, 16), int(last, 16)
            while place < end:  # in pieces: a mapping may be larger than the memory limit
                memory.seek(place)
                if wanted in memory.read(min(end - place, 1 << 23)):
                    found.append(folder)
                place += (1 << 23) - len(wanted)
        except (OSError, ValueError, OverflowError):
            pass
for top in ('/sandbox', '/tmp', '/run', '/root', '/home', '/var', '/mnt', '/dev/shm', '/etc'):
    for where, _, names in os.walk(top):
        for name in names:
            try:
                if wanted in open(os.path.join(where, name), 'rb').read(1 << 22):
                    found.append(os.path.join(where, name))
            except OSError:
                pass
print(found)
"""


@pytest.fixture(scope="module")
def trusting(world: World) -> Iterator[None]:
    """An egress process that trusts the world's certificates, as one on a host that trusts them would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(world.ca))
        _end_egress()
        yield
    _end_egress()


def _end_egress() -> None:
    if pid := egress_process.pid():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def box(trusting: None) -> Iterator[cloche.Sandbox]:
    network = Network(
        allow=["world.test", "other.test", "world.test:8443", "world.test:8080"],
        secrets={"TOKEN": Secret(CANARY, hosts=HOSTS)},
    )
    with cloche.Sandbox(network=network, env={"MARK": MARK}, timeout=60) as sandbox:
        yield sandbox


def _sent(world: World, since: int) -> list[str]:
    """The tokens that arrived outside."""
    requests = [event for event in world.events(since) if event["event"] == "request"]
    return [value for request in requests for name, value in request["head"] if name.lower() == "x-token"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_sends_the_value_and_holds_the_placeholder(box: cloche.Sandbox, world: World, client: str) -> None:
    since = world.count()
    done = box.commands.run(CLIENTS[client])
    assert done.exit_code == 0, done.stderr
    assert set(_sent(world, since)) == {CANARY}
    assert CANARY not in done.stdout  # although the server sends all headers back
    assert "cloche_secret_TOKEN_" in done.stdout


def test_basic_authentication_carries_the_value_as_git_sends_it(box: cloche.Sandbox, world: World) -> None:
    from base64 import b64encode

    since = world.count()
    done = box.commands.run('git ls-remote "https://me:$TOKEN@world.test/git/tiny.git"')
    assert done.exit_code == 0, done.stderr
    box.commands.run('curl -sS -u "me:$TOKEN" https://world.test/echo')
    expected = f"Basic {b64encode(f'me:{CANARY}'.encode()).decode()}"
    heads = [dict(event["head"]) for event in world.events(since) if event["event"] == "request"]
    assert expected in [head.get("Authorization") for head in heads]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_another_host_gets_the_placeholder_alone(box: cloche.Sandbox, world: World, scheme: str) -> None:
    since = world.count()
    done = box.commands.run(f'curl -sSk -H "X-Token: $TOKEN" {scheme}://other.test/echo')
    assert done.exit_code == 0, done.stderr
    (sent,) = _sent(world, since)
    assert sent.startswith("cloche_secret_TOKEN_")


def test_a_redirect_takes_the_value_nowhere_else(box: cloche.Sandbox, world: World) -> None:
    since = world.count()
    box.commands.run('curl -sSkL -H "X-Token: $TOKEN" "https://world.test/redirect?https://other.test/echo"')
    hosts = {
        request["host"]: value
        for request in world.events(since)
        if request["event"] == "request"
        for name, value in request["head"]
        if name.lower() == "x-token"
    }
    assert hosts["world.test"] == CANARY
    assert hosts["other.test"].startswith("cloche_secret_TOKEN_")


def test_the_value_is_nowhere_in_the_sandbox(box: cloche.Sandbox) -> None:
    assert box.run("import requests, os\n" + "held = requests.get('https://world.test/echo', "
                   "headers={'X-Token': os.environ['TOKEN']}).text\nmark = os.environ['MARK']").ok  # fmt: skip
    taken = box.checkpoint()
    for _ in range(2):  # before and after a restore
        box.files.write("/sandbox/search.py", SEARCH)
        found = box.commands.run(["python3", "/sandbox/search.py", CANARY])
        assert found.stdout == "[]\n", found
        control = box.commands.run(["python3", "/sandbox/search.py", MARK])
        assert "/proc/" in control.stdout  # it does find what is there
        box.restore(taken)


@pytest.mark.skipif(os.geteuid() != 0, reason="the memory of other processes can be read by root alone")
def test_no_process_but_ours_has_the_value(box: cloche.Sandbox, world: World) -> None:
    """Nurseries, agents, programs and checkpoints: all processes below this one but the egress process."""
    assert box.run("import os; mark = os.environ['MARK']").ok
    others = _descendants(os.getpid()) - {egress_process.pid(), world.pid}
    # The search finds the mark, which is there, and nowhere the canary.
    assert set().union(*(_found_in(pid, CANARY, MARK) for pid in others)) == {MARK}
    assert CANARY in _found_in(egress_process.pid(), CANARY)


def _descendants(top: int) -> set[int]:
    parents = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            pass  # it has ended
    found = {top}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {top}


def _found_in(pid: int, *texts: str) -> set[str]:
    """Which of these a process has in the memory that it has written, as far as that can be read."""
    found = set[str]()
    try:
        with (
            open(f"/proc/{pid}/maps") as maps,
            open(f"/proc/{pid}/mem", "rb", 0) as memory,
            open(f"/proc/{pid}/pagemap", "rb", 0) as pages,
        ):
            for first, last in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw.p", maps.read(), re.M):
                for place, size in _written(pages, int(first, 16), int(last, 16)):
                    try:
                        memory.seek(place)
                        data = memory.read(size)
                    except (OSError, OverflowError):
                        continue
                    found |= {text for text in texts if text.encode() in data}
    except OSError:
        pass
    return found


def _written(pages: io.FileIO, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The parts of a mapping that exist: a Java or a Node maps gigabytes of which it uses little."""
    pages.seek(first // PAGE * 8)
    entries = array("Q", pages.read((last - first) // PAGE * 8))
    begin = None
    for number, entry in enumerate((*entries, 0)):
        is_there = bool(entry >> 62)  # in memory, or swapped out
        if is_there and begin is None:
            begin = number
        elif not is_there and begin is not None:
            yield first + begin * PAGE, (number - begin) * PAGE
            begin = None


def test_the_value_is_in_no_text_of_ours(box: cloche.Sandbox) -> None:
    result = box.run("import requests; requests.get('https://refused.test/', headers={'X': 'y'})")
    assert result.error.kind == "network"
    texts = [repr(result), repr(box.network.policy()), repr(box.network.log()), str(box.network.policy().effective)]
    texts.append(json.dumps(box.network.policy().effective.as_dict()))
    assert not any(CANARY in text for text in texts)
    assert box.network.policy().effective.secrets["TOKEN"].hosts == HOSTS


def test_a_secret_can_be_added_and_replaced_while_the_sandbox_lives(trusting: None, world: World) -> None:
    with cloche.Sandbox(network=["world.test"]) as box:
        assert box.commands.run("echo $LATER").stdout == "\n"
        since = world.count()
        for value in ("first-value", "second-value"):
            secrets = {"LATER": Secret(value, hosts=["world.test"])}
            box.network.replace(Network(allow=["world.test"], secrets=secrets))
            done = box.commands.run('curl -sS -H "X-Token: $LATER" https://world.test/echo')
            assert done.exit_code == 0, done.stderr
        assert _sent(world, since) == ["first-value", "second-value"]


def test_the_policy_sets_headers_that_a_program_neither_sees_nor_changes(trusting: None, world: World) -> None:
    network = Network(
        allow=["world.test", "other.test"],
        secrets={"KEY": Secret(CANARY, hosts=["world.test"], variable=False)},
        headers={"world.test": {"X-Token": "Key ${KEY}", "X-Team": "research"}, "other.test": {"X-Team": "others"}},
    )
    with cloche.Sandbox(network=network) as box:
        assert "cloche_secret" not in box.commands.run("env").stdout
        for scheme in ("https", "http"):
            since = world.count()
            done = box.commands.run(
                f'curl -sS -H "x-token: mine" {scheme}://world.test/echo {scheme}://other.test/echo'
            )
            assert done.exit_code == 0, done.stderr
            assert CANARY not in done.stdout  # although the server sends all headers back
            heads = [event["head"] for event in world.events(since) if event["event"] == "request"]
            first, second = ({(name.lower(), value) for name, value in head} for head in heads)
            assert {("x-token", f"Key {CANARY}"), ("x-team", "research")} <= first
            assert ("x-token", "mine") not in first
            assert {("x-token", "mine"), ("x-team", "others")} <= second


KEPT = """
import http.client, os, ssl
kept = http.client.HTTPSConnection("world.test", context=ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))
def ask():
    try:
        kept.auto_open = kept.sock is None
        kept.request("GET", "/echo", headers={"X-Token": os.environ["TOKEN"]})
        return "cloche_secret_TOKEN" in kept.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as problem:
        return type(problem).__name__
print(ask())
"""


@pytest.mark.parametrize("value", ["the-same", "another", None])
def test_an_open_connection_loses_a_secret_that_is_taken_away(trusting: None, world: World, value: str | None) -> None:
    def network(value: str | None) -> Network:
        secrets = {} if value is None else {"TOKEN": Secret(value, hosts=["world.test"])}
        return Network(allow=["world.test"], secrets=secrets)

    with cloche.Sandbox(network=network("the-same")) as box:
        since = world.count()
        assert box.run(KEPT).stdout == "True\n"
        box.network.replace(network(value))
        again = box.run("print(ask())").stdout
        assert _sent(world, since) == ["the-same"] * (2 if value == "the-same" else 1)
        assert (again == "True\n") is (value == "the-same")
        if value != "the-same":
            assert "other secrets" in box.network.log()[0].reason


def test_a_server_that_is_not_trusted_gets_nothing(world: World) -> None:
    """Without the world's authority among the host's, the egress process does not believe the world."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        _end_egress()
        secrets = {"TOKEN": Secret(CANARY, hosts=["world.test"])}
        since = world.count()
        with cloche.Sandbox(network=Network(allow=["world.test"], secrets=secrets)) as box:
            done = box.commands.run('curl -sS -H "X-Token: $TOKEN" https://world.test/echo')
        assert "is not trusted" in done.stdout
        assert _sent(world, since) == []
    _end_egress()
