"""The egress process and the listening sockets: when there are any, and what outlives what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.network.inside import prepare, told
from tests.network.outside import World
from tests.network.world import GREETING

import cloche
from cloche.engine import egress_process

UNREACHABLE = """
import socket
try:
    socket.create_connection(("192.0.2.1", 80), 5)
except OSError as problem:
    print(problem.errno)
"""
LISTENERS = """
tables = [open(f"/proc/net/{kind}").readlines()[1:] for kind in ("tcp", "tcp6", "udp", "udp6")]
print([line.split()[1] for table in tables for line in table if line.split()[3] in ("0A", "07")])
"""


def test_without_a_policy_there_is_neither_process_nor_listener():
    code = f"""
import os
import cloche
from cloche.engine import egress_process
with cloche.Sandbox() as box:
    print(box.run({UNREACHABLE!r}).stdout, box.run({LISTENERS!r}).stdout, egress_process.pid())
    print(box.network.policy().effective.is_none, box.network.log(), egress_process.pid())
with cloche.Sandbox(network="none") as box:
    print(box.run({UNREACHABLE!r}).stdout, box.run("x = 1").network, egress_process.pid())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["101", "[]", "0", "True", "[]", "0", "101", "()", "0"], done.stderr


def test_a_killed_egress_process_ends_connections_and_not_sandboxes(world: World):
    with (
        cloche.Sandbox(network=[f"world.test:{GREETING}", "world.test"]) as box,
        cloche.Sandbox(network=["other.test"]) as idle,
    ):
        prepare(box), prepare(idle)
        assert told(box, "watch.ended", f"kept = 42; watch = Watch(hold('world.test', {GREETING}))") is None
        first = egress_process.pid()
        os.kill(first, signal.SIGKILL)
        result = box.run("watch.join(10); print(watch.is_alive(), kept)")
        assert result.stdout == "False 42\n", result.error
        assert told(box, f"[reach('world.test'), repeated(hold('world.test', {GREETING}))]") == [200, True]
        assert egress_process.pid() not in (0, first)
        assert told(idle, "[reach('other.test'), reach('world.test')]") == [200, 403]
        idle.network.allow("world.test")
        assert told(idle, "reach('world.test')") == 200


def test_the_policy_of_a_killed_process_can_be_replaced(world: World):
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        assert told(box, "reach('world.test')") == 200
        os.kill(egress_process.pid(), signal.SIGKILL)
        assert box.network.replace(["other.test"]).effective.allow == ("other.test",)
        assert told(box, "[reach('world.test'), reach('other.test')]") == [403, 200]


def test_nobody_gets_a_new_quota_by_the_end_of_the_process(world: World):
    quota = 5000
    with cloche.Sandbox(network=cloche.Network(allow=["world.test"], bytes=quota)) as box:
        prepare(box)
        first = box.run("print(reach('world.test'), reach('other.test'), reach('world.test', path='/bytes/4000'))")
        assert first.stdout == "200 403 200\n"
        used = sum(each.bytes_up + each.bytes_down for each in first.network)
        os.kill(egress_process.pid(), signal.SIGKILL)
        os.waitid(os.P_PID, egress_process.pid(), os.WEXITED | os.WNOWAIT)
        second = box.run("import urllib.request\nurllib.request.urlopen('http://world.test/bytes/4000').read()")
        assert second.error is not None
        (cut,) = second.network
        assert cut.bytes_up + cut.bytes_down == quota - used
        assert "quota" in cut.reason
        assert cut.number == 4, "the numbers go on, for those who ask for what came after one"


def test_ports_and_previews_do_not_show_our_listeners(world: World):
    with cloche.Sandbox(network=["world.test", f"world.test:{GREETING}"]) as box:
        assert box.ports.list() == []
        box.commands.start("python3 -m http.server --bind 127.0.0.1 8000")
        assert box.ports.wait(8000).port == 8000
        assert [each.port for each in box.ports.list()] == [8000]
        with box.ports.connect(8000) as connection:
            connection.send(b"HEAD / HTTP/1.0\r\n\r\n")
            assert connection.receive().startswith(b"HTTP/1.0 200")


def test_restored_and_forked_sessions_keep_their_access(world: World):
    with cloche.Sandbox(network=["world.test"]) as box:
        prepare(box)
        checkpoint = box.checkpoints.take()
        assert told(box, "[reach('world.test'), reach('other.test')]", "x = 1") == [200, 403]
        box.network.allow("other.test")
        box.restore(checkpoint)
        assert box.run("x").error is not None
        # Access is the owner's decision, and no part of a checkpoint.
        assert told(box, "[reach('world.test'), reach('other.test')]") == [200, 200]
        branch = box.branch()
        assert told(box, "[reach('world.test'), reach('api.world.test')]", context=branch) == [200, 403]


def test_two_sandboxes_do_not_share_a_policy(world: World):
    with (
        cloche.Sandbox(network=["world.test"]) as one,
        cloche.Sandbox(network=cloche.Network(allow=["other.test"], bytes="10K")) as other,
    ):
        prepare(one), prepare(other)
        for _ in range(2):
            assert told(one, "[reach('world.test'), reach('other.test')]") == [200, 403]
            assert told(other, "[reach('world.test'), reach('other.test')]") == [403, 200]
            one.network.replace(cloche.Network(allow=["world.test"], connections=1))
        # A stand-in address means something in its own sandbox only.
        address = told(other, "socket.getaddrinfo('other.test', 80)[0][4][0]")
        assert told(one, f"reach('{address}')") == 403
        assert [each.host for each in one.network.log()][-1] in (address, "other.test")
        assert told(other, "reach('other.test', path='/bytes/20000')") == 200
        assert told(one, "reach('world.test')") == 200


def test_the_namespace_of_a_policy_is_never_used_again(world: World):
    # Those in which nobody has sent anything are used again (decision 0017), so nothing must show that these were.
    with cloche.Sandbox(network=["world.test"]) as box:
        assert box.run("1").error is None
    for _ in range(4):
        with cloche.Sandbox() as box:
            assert box.run(UNREACHABLE).stdout == "101\n"
    # And a policy that has been taken back leaves routes as well.
    with cloche.Sandbox() as box:
        box.network.replace(["world.test"])
        box.network.replace(None)
        assert box.run(LISTENERS).stdout == "[]\n"
    for _ in range(4):
        with cloche.Sandbox() as box:
            assert box.run(UNREACHABLE).stdout == "101\n"
