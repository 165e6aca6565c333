"""T1, T2, T9, T10, T11: the host's files, sockets, processes, devices, descriptors and memory are not in sight."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import sys

import pytest

import cloche
from cloche import settings
from cloche.blocking.walls.jail.wall import Jail
from cloche.walls.jail.nursery_client import Nurseries

READ = """
try:
    print(open({path!r}).read())
except OSError as problem:
    print(type(problem).__name__)
"""


def test_a_file_of_the_host_cannot_be_read(attack, planted):
    code = READ.format(path=str(planted))
    assert attack(code) == "FileNotFoundError"
    assert attack.bare(code) == "a secret of the host"


def test_a_file_of_the_host_cannot_be_read_from_a_shell_or_from_c(attack, planted, compiled):
    binary = compiled(
        '#include <stdio.h>\nint main(int c, char **v) { FILE *f = fopen(v[1], "r"); puts(f ? "read" : "absent"); }'
    )
    with cloche.Sandbox() as box:
        box.files.write("/sandbox/attack", binary, mode=0o755)
        assert box.commands.run(["/sandbox/attack", str(planted)]).stdout == "absent\n"
        assert box.commands.run(["/sandbox/attack", "/etc/passwd"]).stdout == "read\n"  # the proof: its own it can
        assert box.commands.run(f"cat {planted}; cat /etc/shadow; ls -A /root; ls /home/*/.ssh").stdout == ""


HOST_PLACES = """
import os
found = [path for path in {paths!r} if os.path.lexists(path)]
print(found)
"""


def test_homes_keys_sockets_our_source_and_our_data_are_not_there(attack):
    ours = os.path.dirname(os.path.dirname(os.path.abspath(cloche.__file__)))
    paths = ["/root/.bashrc", "/root/.profile", "/root/.ssh", "/etc/shadow", "/etc/ssh", "/etc/sudoers", "/sys/kernel",
             "/boot", "/run/docker.sock", "/var/run", "/media", "/var/log", ours, sys.prefix]  # fmt: skip
    code = HOST_PLACES.format(paths=paths)
    assert attack(code) == "[]"
    assert len(eval(attack.bare(code))) >= 4


def test_our_own_modules_cannot_be_imported(attack):
    code = """
import sys
try:
    import cloche
    print(cloche.__file__)
except ImportError:
    print("absent", [name for name in sys.modules if name.startswith("cloche")])
"""
    assert attack(code) == "absent []"
    assert attack.bare(code).endswith("__init__.py")


def test_a_unix_socket_of_the_host_cannot_be_reached(attack, tmp_path, planted):
    path = tmp_path / "s"
    code = f"""
import socket
try:
    socket.socket(socket.AF_UNIX).connect({str(path)!r})
    print("connected")
except OSError as problem:
    print(type(problem).__name__)
"""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        assert attack(code) == "FileNotFoundError"
        assert attack.bare(code) == "connected"


def test_no_process_of_the_host_can_be_seen(attack):
    code = """
import os
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
for pid in range(1, 40000):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        continue
    except PermissionError:
        pass
    if pid not in (1, os.getpid()):
        print("another:", pid)
"""
    assert attack(code) == "2"  # the agent and the program
    assert "another" in attack.bare(code)


def test_what_proc_tells_of_the_machine_is_masked(attack):
    code = """
import os
for name in ("kcore", "keys", "key-users", "sysrq-trigger", "timer_list", "kallsyms", "kmsg", "config.gz", "cmdline",
             "interrupts", "latency_stats", "sched_debug"):
    try:
        if os.open("/proc/" + name, os.O_RDONLY | os.O_NONBLOCK) and os.read(os.open("/proc/" + name, os.O_RDONLY), 1):
            print(name)
    except OSError:
        pass
for name in ("acpi", "asound", "scsi", "driver", "fs", "bus", "irq", "tty", "sysvipc", "pressure"):
    if os.path.exists("/proc/" + name) and os.listdir("/proc/" + name):
        print(name)
"""
    assert attack(code) == ""
    assert {"timer_list", "driver", "irq"} & set(attack(code, "masks").split())


def test_the_settings_of_the_kernel_cannot_be_written(attack):
    code = """
import os
print(bool(os.statvfs("/proc/sys").f_flag & os.ST_RDONLY))
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
            print("open for writing:", folder, name)
        except OSError:
            pass
for name in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup/release_agent"):
    try:
        with open(name, "w") as file:
            file.write("1")
        print("wrote", name)
    except OSError:
        pass
"""
    held = [line for line in attack(code).splitlines() if "/proc/1/" not in line]
    assert held == ["True"]
    assert attack(code, "masks").startswith("False")


def test_no_control_group_of_the_host_is_told(attack):
    code = "print(open('/proc/self/cgroup').read(), end='')"
    assert {line.split(":")[2] for line in attack(code).splitlines()} <= {"/"}
    if os.geteuid() == 0:
        assert "cloche-" in attack(code, "cgroup namespace")


DESCRIPTORS = """
import os
for name in os.listdir("/proc"):
    if not name.isdigit() or name == "1":
        continue
    try:
        numbers = os.listdir(f"/proc/{name}/fd")
    except OSError:
        continue
    for number in numbers:
        try:
            print(name == str(os.getpid()), number, os.readlink(f"/proc/{name}/fd/{number}").partition(":")[0])
        except OSError:
            pass
"""


def test_no_descriptor_leaks_into_a_program(attack):
    streams = {"True 0 pipe", "True 1 pipe", "True 2 pipe"}
    assert set(attack(DESCRIPTORS).splitlines()) == streams
    with open(os.devnull) as null:
        leaked = attack.bare(DESCRIPTORS, pass_fds=(null.fileno(),), stdin=0)
        assert f"True {null.fileno()} /dev/null" in leaked


def test_no_descriptor_leaks_into_commands_and_terminals():
    with cloche.Sandbox() as box:
        box.run_program("print(1)")  # so that agent and spare have had descriptors of their own
        box.files.write("/sandbox/fds.py", DESCRIPTORS)
        told = box.commands.run(["python3", "/sandbox/fds.py"]).stdout
        assert set(told.splitlines()) == {"True 0 pipe", "True 1 pipe", "True 2 pipe"}
        terminal = box.commands.start(["python3", "/sandbox/fds.py"], pty=True).wait()
        assert {line.split()[1] for line in terminal.stdout.splitlines()} == {"0", "1", "2"}
        assert all("/dev/pts/" in line for line in terminal.stdout.splitlines())
        shell = box.commands.run("ls -l /proc/self/fd /proc/$$/fd | grep -c socket").stdout
        assert shell == "0\n"


SCAN = """
import hashlib, os
wanted, seen = {digest!r}, []
def look(place, data, mark=bytes(b ^ 1 for b in {mark!r})):
    at = data.find(mark)
    while at >= 0:
        if hashlib.sha256(data[at + len(mark) : at + len(mark) + 32]).hexdigest() == wanted:
            seen.append(place)
        at = data.find(mark, at + 1)
for name in os.listdir("/proc"):
    if name.isdigit():
        for what in ("environ", "cmdline"):
            try:
                look(name + what, open(f"/proc/{{name}}/{{what}}", "rb").read())
            except OSError:
                pass
memory = open("/proc/self/mem", "rb", 0)
for line in open("/proc/self/maps").read().splitlines():
    span, rights = line.split()[:2]
    if rights[0] != "r" or "[v" in line:
        continue
    begin, end = (int(text, 16) for text in span.split("-"))
    while begin < end:  # in pieces that overlap
        try:
            memory.seek(begin)
            look("memory", memory.read(min(end - begin, (1 << 20) + 64)))
        except (OSError, ValueError):
            pass
        begin += 1 << 20
for folder, _, names in os.walk("/") if os.path.isdir("/sandbox") else ():
    if folder.startswith(("/usr", "/opt", "/proc", "/lib", "/bin", "/sbin", "/dev/pts", "/etc/ssl")):
        continue
    for name in names:
        try:
            if os.path.isfile(os.path.join(folder, name)) and "/code/main" not in os.path.join(folder, name):
                look(name, open(os.path.join(folder, name), "rb").read(1 << 20))
        except OSError:
            pass
print(sorted(set(seen)))
"""


class Canary:
    """A secret that a program can look for without knowing it."""

    def __init__(self) -> None:
        mark, secret = "cnry" + secrets.token_hex(4), secrets.token_hex(16)
        self.text = mark + secret
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self.scan = SCAN.format(digest=digest, mark=bytes(b ^ 1 for b in mark.encode()))


def test_no_secret_of_the_engine_is_in_memory_or_environment(attack, monkeypatch):
    canary = Canary()
    monkeypatch.setenv("A_KEY", canary.text)
    heap = [canary.text.encode() * 10 for _ in range(1000)]
    nurseries = Nurseries(settings.load())  # started while the canary is everywhere
    try:
        assert cloche.run(canary.scan, wall=Jail(nurseries)).stdout.strip() == "[]"
    finally:
        nurseries.close()
    assert len(heap) == 1000
    assert attack.bare(canary.scan).count("environ") >= 1


def test_nothing_of_an_earlier_sandbox_is_found():
    canary = Canary()
    hide = f"""
import os, ctypes
open("/tmp/left", "w").write({canary.text!r})
open("/dev/shm/left", "w").write({canary.text!r})
kept = [{canary.text!r} * 100 for _ in range(10000)]
"""
    for _ in range(2):
        assert cloche.run(hide, env={"A_KEY": canary.text}, files={"data/x": canary.text}).error is None
        assert cloche.run(canary.scan).stdout.strip() == "[]"
    found = cloche.run(canary.scan, env={"A_KEY": canary.text}, files={"data/x": canary.text}).stdout
    assert "memory" in found
    assert "'x'" in found


def test_devices_are_the_harmless_ones(attack):
    code = "import os; print(sorted(os.listdir('/dev')))"
    wanted = [
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    ]
    assert eval(attack(code)) == wanted
    assert eval(attack.bare(code)) != wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices at all")
def test_no_device_can_be_made(attack, tmp_path):
    code = """
import os, stat
os.chdir({folder!r})
for kind, number in ((stat.S_IFCHR, (1, 3)), (stat.S_IFBLK, (254, 0))):
    try:
        os.mknod("d", kind | 0o600, os.makedev(*number))
        os.unlink("d")
        print("made")
    except OSError as problem:
        print(problem.strerror)
"""
    assert attack(code.format(folder="/sandbox")).split("\n") == ["Operation not permitted"] * 2
    assert attack.bare(code.format(folder=str(tmp_path))).split() == ["made"] * 2
