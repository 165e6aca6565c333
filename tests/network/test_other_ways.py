"""Ways out of a sandbox that are no usual connection: addresses, DNS, other sockets, changes, and other sandboxes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.network.outside import World

import cloche
from cloche.engine import egress_process

TOOLS = Path(__file__).with_name("attack_tools.py")
POLICY = ("public", "world.test", "world.test:8080", "world.test:2525", "world.test:9999")


def prepare(box: cloche.Sandbox) -> None:
    box.files.write("/sandbox/attack_tools.py", TOOLS.read_text())
    assert box.run("from attack_tools import *").error is None


def gain(box: cloche.Sandbox, expression: str) -> str:
    result = box.run(f"tell(lambda: {expression})")
    assert result.error is None, result.error
    return str(json.loads(result.stdout))


@pytest.fixture(scope="module")
def roomy(world: World) -> Iterator[cloche.Sandbox]:
    """A sandbox that may reach everything public."""
    with cloche.Sandbox(network=list(POLICY)) as box:
        prepare(box)
        yield box


@pytest.fixture(scope="module")
def narrow(world: World) -> Iterator[cloche.Sandbox]:
    """A sandbox that may reach few names."""
    with cloche.Sandbox(network=["world.test", "world.test:8080", "*.closed.test"]) as box:
        prepare(box)
        yield box


# --- addresses

CLOSED = (
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.77.0.1", "168.63.129.16"),
    *("169.254.169.254", "172.16.0.1", "192.0.0.192", "192.168.0.1", "198.18.7.7", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "192.88.99.1", "203.0.113.1", "127.1", "2130706433", "0177.0.0.1", "0x7f.1", "10.1"),
    *("::", "::1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"),
    *("2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:db8::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
    *("fd63:6c6f:6368:65:1::77", "fd63:6c6f:6368:65::1", "200::1", "5f00::1", "fe80::1%lo", "3fff::1"),
)


def test_no_closed_address_is_connected_to(roomy: cloche.Sandbox) -> None:
    """In the most generous policy: each is refused in words or by a reset, and none appears as allowed in the log."""
    before = max((each.number for each in roomy.network.log()), default=0)
    for address in CLOSED:
        shown = f"[{address}]" if ":" in address else address
        assert gain(roomy, f"web({address!r}, 80, get({shown!r}))") == "", address
    logged = roomy.network.log(before)
    assert [each for each in logged if each.verdict != "refused"] == []
    refused = {each.host for each in logged}
    assert {"10.0.0.1", "169.254.169.254", "192.168.0.1", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"} <= refused
    assert gain(roomy, "web('world.test', 80, get('world.test'))")


def test_the_hosts_own_addresses_are_closed(roomy: cloche.Sandbox, narrow: cloche.Sandbox) -> None:
    address = own_address()
    with closing(socket.create_server((address, 8080))) as server:
        server.settimeout(0.2)
        roomy.network.allow(f"{address}:8080")
        assert gain(roomy, f"web({address!r}, 8080, get({address!r}))") == ""
        with pytest.raises(TimeoutError):
            server.accept()
        with socket.create_connection((address, 8080)):  # which anybody else can reach
            server.accept()[0].close()


def own_address() -> str:
    """An address of this host that others can reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("198.51.100.1", 9))  # nothing is sent
        except OSError:
            pytest.skip("this host has no address but those of loopback")
        return str(trial.getsockname()[0])


@pytest.mark.parametrize("ours", [False, True])
def test_cloches_own_port_is_closed_under_every_name(ours: bool, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress_process, "own_ports", {8080} if ours else set())
    with cloche.Sandbox(network=["world.test:8080", f"{world.address}:8080"]) as box:
        prepare(box)
        before = world.count()
        assert bool(gain(box, "web('world.test', 8080, get('world.test'))")) is not ours
        assert bool(gain(box, f"tunnelled('{world.address}:8080')")) is not ours
        assert (world.count() == before) is ours


def test_services_on_the_hosts_loopback_are_not_there(narrow: cloche.Sandbox) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as tcp, socket.socket(socket.AF_UNIX) as local:
        name = f"cloche-way-{os.getpid()}"
        local.bind(f"\0{name}")
        for server in (tcp, local):
            server.listen()
            server.settimeout(0.2)
        port = tcp.getsockname()[1]
        narrow.network.allow(f"world.test:{port}")
        assert gain(narrow, f"talk('127.0.0.1', {port}, b'hello').decode()") == ""
        assert gain(narrow, f"tunnelled('127.0.0.1:{port}')") == ""
        assert gain(narrow, f"allowed_to(socket.socket(socket.AF_UNIX).connect, '\\0{name}')") == ""
        for server, address in ((tcp, ("127.0.0.1", port)), (local, f"\0{name}")):
            with pytest.raises(TimeoutError):
                server.accept()
            with socket.socket(server.family) as outside:
                outside.connect(address)
                server.accept()[0].close()


# --- DNS

QUESTIONS = (
    *("asked('world.test', 16)", "asked('world.test', 255)", "asked('world.test', 65)", "asked('world.test', 64)"),
    *("asked('world.test', 252)", "asked('world.test', 251)", "asked('world.test', 15)", "asked('world.test', 10)"),
    *("asked('version.bind', 16, class_=3)", "asked('world.test', flags=0x2800)", "asked('world.test', count=2)"),
    *("asked('world.test', flags=0x8100)", "asked(b'x' * 63 + b'')", "asked('a' * 63 + '.' + 'b' * 64)"),
    *("asked('.'.join(['abcdefgh'] * 40))", "asked('1.2.3.4')", "asked('127.1')", "asked('0x7f000001')"),
    *("asked('-a.test')", "asked('')", "asked('localhost')"),
    *("records_of(datagram('192.0.2.53', 53, bytes(4)))", "records_of(datagram('192.0.2.53', 53, bytes(600)))"),
    "records_of(datagram('192.0.2.53', 53, question('world.test')[:-3]))",
    "records_of(datagram('192.0.2.53', 53, question('world.test')[:12] + b'\\xc0\\x0c\\0\\1\\0\\1'))",
    *("over_tcp(b'')", "over_tcp(bytes(13))", "over_tcp(question('world.test', 252))"),
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_odd_question_has_an_answer(question: str, narrow: cloche.Sandbox) -> None:
    assert gain(narrow, question) == ""


def test_usual_questions_have_answers(narrow: cloche.Sandbox) -> None:
    for question in ("asked('world.test')", "asked('WORLD.test', 28)", "over_tcp(question('world.test'))"):
        assert gain(narrow, question) == "1 records"


# --- sockets

SOCKETS = (  # raw, ping, packet, vsock, netlink of filters, and the like
    *(
        "socket.AF_INET, socket.SOCK_RAW, 1",
        "socket.AF_INET6, socket.SOCK_RAW, 58",
        "socket.AF_INET, socket.SOCK_RAW, 255",
    ),
    *("socket.AF_INET, socket.SOCK_DGRAM, 1", "socket.AF_INET6, socket.SOCK_DGRAM, 58", "17, socket.SOCK_RAW, 0x300"),
    *("17, socket.SOCK_DGRAM, 0x300", "16, socket.SOCK_RAW, 12", "40, socket.SOCK_STREAM", "38, 5", "30, 5", "21, 5"),
    *("31, 3", "29, 3", "socket.AF_INET, 5, 132", "socket.AF_INET, socket.SOCK_STREAM, 132", "44, 3", "15, 3, 2"),
)


@pytest.mark.parametrize("kind", SOCKETS)
def test_only_usual_sockets_exist(kind: str, narrow: cloche.Sandbox) -> None:
    assert gain(narrow, f"allowed_to(socket.socket, {kind})") == ""


UDP = "datagram('world.test', {}, b'\\xc0\\0\\0\\0\\1' + bytes(1200), 0.2).hex()"
TAKEN = (
    *("socket.SOCK_STREAM, '0.0.0.0', 8080", "socket.SOCK_STREAM, '127.0.0.1', 8080"),
    *("socket.SOCK_STREAM, '127.0.0.1', 3128, 15", "socket.SOCK_STREAM, '8.8.8.8', 8080, 2"),
    *("socket.SOCK_STREAM, '0.0.0.0', 8080, 2, 15", "socket.SOCK_DGRAM, '0.0.0.0', 53, 2, 15"),
)
CHANGES = (
    "fcntl.ioctl(socket.socket(), 0x890B, bytes(120))",  # SIOCADDRT
    "fcntl.ioctl(socket.socket(), 0x8914, LO + bytes(24))",  # SIOCSIFFLAGS: down
    "fcntl.ioctl(socket.socket(), 0x8916, LO + bytes([2, 0, 0, 0, 7, 7, 7, 7]) + bytes(16))",  # SIOCSIFADDR
    "routed(24, bytes([2, 32, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0, 8, 0, 1, 0, 7, 7, 7, 7]))",  # RTM_NEWROUTE
    "routed(25, bytes([2, 0, 0, 0, 255, 4, 254, 2, 0, 0, 0, 0]))",  # RTM_DELROUTE: the default
    "routed(20, bytes([2, 32, 0, 0, 1, 0, 0, 0, 8, 0, 2, 0, 7, 7, 7, 7]))",  # RTM_NEWADDR
    "socket.socket().setsockopt(0, 19, 1)",  # IP_TRANSPARENT
    "socket.socket().setsockopt(1, 36, 7)",  # SO_MARK
    "open('/proc/sys/net/ipv4/ping_group_range', 'w')",
    "open('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'w')",
    "entered('/proc/self/ns/net', 0x40000000)",
    "entered('/proc/self/ns/user', 0x10000000)",
    "entered('', 0x40000000)",
    "entered('', 0x50000000)",
)


def test_programs_cannot_change_the_way(narrow: cloche.Sandbox) -> None:
    assert gain(narrow, "allowed_to(lambda: routed(18, bytes([0, 0, 0, 0, 1, 0, 0, 0]) + bytes(8)))"), (
        "questions are possible"
    )
    for change in CHANGES:
        assert gain(narrow, f"allowed_to(lambda: {change}, strictly=True)") == "", change
    for taken in TAKEN:
        assert gain(narrow, f"bound({taken})") == "", taken
    assert gain(narrow, "bound(socket.SOCK_STREAM, '127.0.0.1', 18080)") == "the port"
    assert gain(narrow, "web('world.test', 8080, get('world.test'))"), "and it is still there"


def test_datagrams_go_nowhere_but_to_the_name_server(narrow: cloche.Sandbox) -> None:
    for port in (443, 80, 853, 123, 5353, 3128, 8080):
        assert gain(narrow, UDP.format(port)) == "", port
    assert gain(narrow, "records_of(datagram('world.test', 53, question('world.test')))") == "1 records"


def test_ours_are_no_descriptors_of_a_program(narrow: cloche.Sandbox) -> None:
    """Nothing of the egress process is where a program could take it."""
    seen = narrow.run(
        "import os\nfor pid in os.listdir('/proc'):\n"
        "    if pid.isdigit():\n"
        "        try: print(pid, open(f'/proc/{pid}/cmdline').read())\n        except OSError: pass"
    ).stdout
    assert "egress" not in seen
    assert "python" in seen  # it has seen processes


# --- changes, and other sandboxes


@pytest.mark.parametrize("stays", [False, True])
def test_what_is_open_ends_with_its_rule(stays: bool, world: World) -> None:
    with cloche.Sandbox(network=["world.test", "world.test:2525"]) as box:
        prepare(box)
        begun = (
            "kept = connected('world.test', 2525); kept.recv(99); send(kept, b'one\\n'); kept.recv(99)",
            "mine = hello('world.test'); shaken = connected('world.test', 443); send(shaken, mine[:20])",
            "piped = connected('world.test', 80); send(piped, get('world.test')[:20])",
            "waiting = connected('world.test', 80)",
        )
        assert box.run("\n".join(begun)).error is None
        before = world.count()
        box.network.replace(["world.test", "world.test:2525"] if stays else ["api.world.test", "api.world.test:2525"])
        for after in (
            "send(kept, b'two\\n') or receive(kept, b'two').decode()",
            "send(shaken, mine[20:]) or shaken.recv(5).hex()",
            "send(piped, get('world.test')[20:]) or pages(receive(piped))",
            "send(waiting, get('world.test')) or pages(receive(waiting))",
        ):
            assert bool(gain(box, after)) is stays, after
        assert (world.count() > before) is stays


@pytest.mark.parametrize("range_", ["127.77.0.0/16", "127.79.0.0/16", "::ffff:127.77.0.0/112"])
def test_what_is_open_ends_when_its_address_is_denied(range_: str, world: World) -> None:
    with cloche.Sandbox(network=["world.test:2525"]) as box:
        prepare(box)
        assert box.run("kept = connected('world.test', 2525); kept.recv(99)").error is None
        box.network.deny(range_)
        assert bool(gain(box, "send(kept, b'two\\n') or receive(kept, b'two').decode()")) is ("79" in range_)


DENIALS = (
    ("other.test", "handed(ADDRESS + ':443', hello('other.test'))", "handed(ADDRESS + ':443', hello('world.test'))"),
    ("public", "tunnelled(ADDRESS + ':443')", ""),
    ("*", "tunnelled(ADDRESS + ':443')", ""),
    ("public:443", "tunnelled(ADDRESS + ':443')", "tunnelled(ADDRESS + ':80')"),
    ("::ffff:127.77.0.0/112", "handed('world.test:443', hello('world.test'))", ""),
)


@pytest.mark.parametrize(("denied", "attack", "control"), DENIALS)
def test_a_denied_host_has_no_other_way(denied: str, attack: str, control: str, world: World) -> None:
    with cloche.Sandbox(network={"allow": ["127.77.0.0/16", "world.test"], "deny": [denied]}) as box:
        prepare(box)
        assert box.run(f"ADDRESS = {world.address!r}").error is None
        assert gain(box, attack) == ""
        if not control:
            box.network.replace(["127.77.0.0/16", "world.test"])
        assert gain(box, control or attack)


SHAKEN = """
kept = connected(*PROXY)
send(kept, f"CONNECT {ADDRESS}:443 HTTP/1.1\\r\\n\\r\\n".encode())
receive(kept, b"\\r\\n\\r\\n")
send(kept, hello("other.test"))
assert kept.recv(1) == b"\x16"
"""


@pytest.mark.parametrize("denied", ["other.test", "api.world.test"])
def test_what_is_open_to_an_address_ends_when_the_name_in_it_is_denied(denied: str, world: World) -> None:
    with cloche.Sandbox(network=["127.77.0.0/16"]) as box:
        prepare(box)
        assert box.run(f"ADDRESS = {world.address!r}\n{SHAKEN}").error is None
        box.network.deny(denied)
        ended = box.run(
            "kept.settimeout(0.3)\ntry:\n    while kept.recv(9999): pass\nexcept Exception as problem: print(problem)"
        )
        assert ("reset" in ended.stdout) is (denied == "other.test"), ended.stdout


@pytest.mark.parametrize("stays", [False, True])
def test_a_descriptor_in_a_checkpoint_leads_nowhere_else(stays: bool, world: World) -> None:
    with cloche.Sandbox(network=["world.test:2525", "other.test:2525"]) as box:
        prepare(box)
        assert box.run("kept = connected('world.test', 2525); kept.recv(99)").error is None
        checkpoint = box.checkpoints.take()
        if not stays:
            box.network.deny("world.test")
        box.restore(checkpoint)
        assert bool(gain(box, "send(kept, b'again\\n') or kept.recv(99).decode()")) is stays
        assert (
            bool(
                gain(
                    box, "allowed_to(connected, 'world.test', 2525) and connected('world.test', 2525).recv(99).decode()"
                )
            )
            is stays
        )
        assert gain(box, "connected('other.test', 2525).recv(99).decode()")


def test_another_sandbox_is_out_of_reach(narrow: cloche.Sandbox, roomy: cloche.Sandbox) -> None:
    narrow.network.allow("world.test:7777")
    roomy.run("server = socket.create_server(('0.0.0.0', 7777)); server.settimeout(0.2)")
    assert gain(roomy, "allowed_to(connected, '198.18.0.1', 7777)")  # its own way to itself
    for address in ("127.0.0.1", "198.18.0.1", "198.18.0.2", "world.test", "192.168.0.1"):
        assert gain(narrow, f"web('{address}', 7777, get('x'))") == ""
    assert gain(roomy, "allowed_to(server.accept)"), "its own connection"
    assert gain(roomy, "allowed_to(server.accept)") in ("", "an odd error"), "there is another one"


def test_nothing_is_left_for_the_next_sandbox(world: World) -> None:
    with cloche.Sandbox(network=["world.test:2525"]) as box:
        prepare(box)
        assert box.run("kept = connected('world.test', 2525); print(kept.recv(99))").error is None
        stand_in = gain(box, "socket.gethostbyname('world.test')")
        pid = egress_process.pid()
        during = len(os.listdir(f"/proc/{pid}/fd"))
    with ExitStack() as stack:
        for _ in range(3):  # also those that get the recycled parts of others
            box = stack.enter_context(cloche.Sandbox())
            prepare(box)
            assert gain(box, f"allowed_to(connected, '{stand_in}', 2525)") == ""
            assert gain(box, "asked('world.test')") == ""
            assert "00000000" not in box.run("print(open('/proc/net/route').read())").stdout
    assert len(os.listdir(f"/proc/{pid}/fd")) < during
