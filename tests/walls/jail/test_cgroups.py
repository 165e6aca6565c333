"""A sandbox's group: memory is not files, files are not memory, and nothing is left behind."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from cloche.walls.jail import cgroups, linux
from cloche.walls.jail import group as group_module

MIB = 1 << 20
DEADLINE_S = 60.0  # for events that come in milliseconds; slow under emulation


def _detected() -> cgroups.Cgroups:
    found = cgroups.detect()
    if not found.places and os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(f"no control groups at all for root: {found.missing}")
    return found


@pytest.fixture
def groups():
    found = _detected()
    descriptors = len(os.listdir("/proc/self/fd")) - len(found.places)
    yield found
    found.close()
    assert len(os.listdir("/proc/self/fd")) <= descriptors, "descriptors are left behind"


@pytest.fixture
def group(groups):
    made = groups.create()
    yield made
    made.kill()
    _remove(made)


def _needs(groups: cgroups.Cgroups, *controllers: str) -> None:
    for controller in controllers:
        if not groups.limits(controller):
            pytest.skip(f"{controller} cannot be limited here: {groups.missing[controller]}")


class _Child:
    """A process in a group, with a tmpfs of its own at /mnt, that runs one function when told."""

    def __init__(self, group: cgroups.Group, work: Callable[[], object], disk: int | None = None) -> None:
        go_read, self._go = os.pipe()
        self.done, done_write = os.pipe()
        self.pid = group.fork()
        if self.pid == 0:
            try:
                os.close(self._go)
                linux.unshare(linux.NEWNS)
                linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
                if disk:
                    linux.mount("tmpfs", "/mnt", "tmpfs", data=f"size={disk}")
                    os.write(done_write, b"m")
                os.read(go_read, 1)
                os.write(done_write, repr(work()).encode())
                signal.pause()
            finally:
                os._exit(1)
        os.close(go_read)
        os.close(done_write)
        self._root = -1
        if disk:
            assert os.read(self.done, 1) == b"m"
            self._root = os.open(f"/proc/{self.pid}/root/mnt", os.O_RDONLY)

    def files(self) -> int:
        status = os.fstatvfs(self._root)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def go(self) -> None:
        os.write(self._go, b"g")

    def end(self) -> int:
        os.kill(self.pid, signal.SIGKILL)
        return self.reap()

    def reap(self) -> int:
        for fd in (self._go, self.done, self._root):
            if fd >= 0:
                os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _watch(group: cgroups.Group, child: _Child, files: Callable[[], int] | None = None) -> tuple[bool, int, bytes]:
    """What the nursery does: until the child is done or beyond its memory.  Also, how often there was a check."""
    checks = 0
    assert group.watch_fd is not None
    with selectors.DefaultSelector() as selector:
        selector.register(group.watch_fd, selectors.EVENT_READ)
        selector.register(child.done, selectors.EVENT_READ)
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            for key, _ in selector.select(end - time.monotonic()):
                if key.fd != child.done:
                    checks += 1
                    if group.check(files):
                        return True, checks, b""
                elif text := os.read(child.done, 100):
                    return group.check(files), checks, text
                else:
                    selector.unregister(child.done)
    raise AssertionError("neither done nor beyond its memory")


def _remove(group: cgroups.Group) -> None:
    """Removing never blocks: an empty group may be busy for a moment, and nothing tells when it is not."""
    end = time.monotonic() + DEADLINE_S
    while not group.remove():
        assert time.monotonic() < end, f"{group.name} stays busy"
        select.select([], [], [], 0.001)


_kept: list[mmap.mmap] = []


def _allocate(size: int) -> int:
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block)), 1, size)
    _kept.append(block)
    return size


def _free() -> int:
    _kept.clear()
    return 0


def _write_file(size: int, path: str = "/mnt/file") -> int:
    block = b"x" * MIB
    with open(path, "wb", buffering=0) as file:
        return sum(file.write(block) for _ in range(size // MIB))


def _fill_memfd(size: int) -> int:
    fd = os.memfd_create("hidden")
    return _write_file(size, f"/proc/self/fd/{fd}")


def test_memory_beyond_the_limit_is_noticed(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 512 * MIB, 2, 20)
    child = _Child(group, lambda: _allocate(256 * MIB))
    child.go()
    beyond, _, _ = _watch(group, child)
    assert child.end() == -signal.SIGKILL
    assert beyond


def test_memory_within_the_limit_is_not(groups, group):
    _needs(groups, "memory")
    group.limit(128 * MIB, 64 * MIB, 2, 20)
    child = _Child(group, lambda: _allocate(64 * MIB))
    child.go()
    assert _watch(group, child)[::2] == (False, str(64 * MIB).encode())
    child.end()


@pytest.mark.parametrize("told", [True, False], ids=["files told", "files not told"])
def test_a_file_larger_than_memory_but_within_disk_can_be_written(groups, group, told):
    _needs(groups, "memory")
    group.limit(64 * MIB, 256 * MIB, 2, 20)
    child = _Child(group, lambda: _write_file(200 * MIB), disk=256 * MIB)
    child.go()
    beyond, checks, text = _watch(group, child, child.files if told else None)
    assert (beyond, text) == (False, str(200 * MIB).encode())
    assert group.usage()["files"] >= 199 * MIB  # the kernel adds up by batches
    assert group.usage()["oom_kills"] == 0
    assert checks < 200
    child.end()


def test_memory_is_noticed_also_beside_a_large_file(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 256 * MIB, 2, 20)
    child = _Child(group, lambda: _write_file(200 * MIB) + _allocate(100 * MIB), disk=256 * MIB)
    child.go()
    beyond, _, _ = _watch(group, child, child.files)
    child.end()
    assert beyond


def test_memory_in_the_place_of_a_deleted_file_is_noticed(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 256 * MIB, 2, 20)

    def work():
        size = _write_file(200 * MIB)
        os.unlink("/mnt/file")
        return size + _allocate(150 * MIB)

    child = _Child(group, work, disk=256 * MIB)
    child.go()
    beyond, _, _ = _watch(group, child, child.files)
    child.end()
    assert beyond


def test_a_memfd_beyond_memory_is_noticed_when_files_are_told(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 256 * MIB, 2, 20)
    child = _Child(group, lambda: _fill_memfd(200 * MIB), disk=256 * MIB)
    child.go()
    beyond, _, _ = _watch(group, child, child.files)
    child.end()
    assert beyond


def test_a_memfd_cannot_pass_memory_and_disk_together(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 64 * MIB, 2, 20)
    child = _Child(group, lambda: _fill_memfd(256 * MIB))
    child.go()
    beyond, _, _ = _watch(group, child)
    child.end()
    assert beyond


def test_without_a_watcher_the_kernel_kills_at_memory_and_disk(groups, group):
    _needs(groups, "memory")
    group.limit(32 * MIB, 16 * MIB, 2, 20)
    if groups.controllers["memory"] == 2:
        pytest.skip("version 2 slows it down at memory.high: minutes until it gets there")
    child = _Child(group, lambda: _allocate(256 * MIB))
    child.go()
    assert child.reap() == -signal.SIGKILL
    assert group.usage()["oom_kills"] == 1
    assert group.check()


def test_page_cache_is_not_memory(groups, group, tmp_path):
    _needs(groups, "memory")
    path = str(tmp_path / "file")
    _write_file(150 * MIB, path)
    if _kind_of(tmp_path) == "tmpfs":
        pytest.skip(f"{tmp_path} is a tmpfs: it has no page cache")
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    group.limit(32 * MIB, 16 * MIB, 2, 20)

    def work():
        with open(path, "rb", buffering=0) as file:
            return sum(len(block) for _ in range(3) if file.seek(0) == 0 for block in iter(lambda: file.read(MIB), b""))

    child = _Child(group, work)
    child.go()
    assert _watch(group, child)[::2] == (False, str(450 * MIB).encode())
    assert group.usage()["oom_kills"] == 0
    child.end()


def _kind_of(path) -> str:
    return subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True).stdout.strip()


def test_an_idle_sandbox_is_checked_rarely(groups, group):
    _needs(groups, "memory")
    group.limit(64 * MIB, 16 * MIB, 2, 20)
    child = _Child(group, lambda: select.select([], [], [], 1.0)[0])
    child.go()
    beyond, checks, _ = _watch(group, child)
    child.end()
    assert not beyond
    assert checks <= (25 if groups.controllers["memory"] == 1 else 1)


def test_more_processes_than_allowed_are_refused_and_counted(groups, group):
    _needs(groups, "pids")

    def bomb():
        for count in range(100):
            try:
                if os.fork() == 0:
                    signal.pause()
            except BlockingIOError:
                return count
        return 100

    group.limit(64 * MIB, 16 * MIB, 2, processes=5)
    child = _Child(group, bomb)
    child.go()
    assert os.read(child.done, 10) == b"4"
    assert group.usage()["processes"] == 5
    assert group.usage()["processes_refused"] == 1
    group.kill()
    assert child.reap() == -signal.SIGKILL


def test_processor_time_is_limited_and_counted(groups, group):
    _needs(groups, "cpu")

    def spin():
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        return time.process_time()

    group.limit(64 * MIB, 16 * MIB, cpu=0.2, processes=5)
    child = _Child(group, spin)
    child.go()
    used = float(os.read(child.done, 30))
    counted = group.usage()["cpu_s"]
    child.end()
    assert used < 0.5
    assert counted is not None
    assert counted >= used / 2


def test_usage_is_plausible(groups, group):
    _needs(groups, "memory", "pids")
    group.limit(128 * MIB, 64 * MIB, 2, 20)
    child = _Child(group, lambda: _write_file(20 * MIB) + _allocate(50 * MIB) + _free(), disk=64 * MIB)
    child.go()
    _watch(group, child, child.files)
    usage = group.usage()
    child.end()
    assert usage["memory"] < 25 * MIB  # what was allocated is free again
    assert 50 * MIB <= usage["memory_peak"] < 100 * MIB
    assert 20 * MIB <= usage["files"] < 25 * MIB
    assert usage["processes"] == 1
    assert usage["processes_refused"] == usage["oom_kills"] == 0
    assert 0 < usage["cpu_s"] < 10


def test_limits_can_be_raised_and_lowered(groups, group):
    _needs(groups, "memory")
    for memory in (64, 1024, 32):
        group.limit(memory * MIB, 16 * MIB, 0.5, 10)
    child = _Child(group, lambda: _allocate(48 * MIB))
    child.go()
    beyond, _, _ = _watch(group, child)
    child.end()
    assert beyond


@pytest.mark.parametrize("clone3", [True, False], ids=["clone3", "no clone3"])
def test_a_forked_child_is_in_the_group(groups, group, monkeypatch, clone3):
    _needs(groups, "pids")
    if not clone3:
        monkeypatch.setattr(group_module, "_fork_into", lambda _: None)
    child = _Child(group, lambda: open("/proc/self/cgroup").read().count(group.name))
    child.go()
    assert os.read(child.done, 10) == str(len(groups.places)).encode()
    assert group.usage()["processes"] == 1
    child.end()


def test_a_busy_group_is_not_removed_until_it_is_killed(groups, group):
    _needs(groups, "pids")
    inside, tell = os.pipe()
    pid = group.fork()
    if pid == 0:
        os.write(tell, b".")
        signal.pause()
    os.read(inside, 1)
    os.close(inside)
    os.close(tell)
    assert group.usage()["processes"] == 1
    assert not group.remove()  # busy: says so, and does not wait
    group.kill()
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    _remove(group)


def test_an_empty_group_serves_again_but_not_with_what_the_kernel_has_yet_to_free(groups, group):
    _needs(groups, "memory", "pids")
    group.limit(64 * MIB, 64 * MIB, 2, 20)
    again = _Child(group, lambda: _allocate(MIB))
    again.end()
    if not group.renew():
        pytest.skip("control groups of version 2 never serve again")
    fd = os.memfd_create("outlives its writer")
    child = _Child(group, lambda: _write_file(32 * MIB, f"/proc/self/fd/{fd}"))
    child.go()
    assert _watch(group, child)[2] == str(32 * MIB).encode()
    child.end()
    assert not group.renew()  # whoever comes next would be told to have used all this
    os.close(fd)
    end = time.monotonic() + DEADLINE_S
    while not group.renew():
        assert time.monotonic() < end, "what is freed is charged for ever"
    assert group.usage()["memory_peak"] < 32 * MIB


def test_removing_twice_is_harmless(groups):
    made = groups.create()
    _remove(made)
    assert made.remove()


# A launcher that dies without cleaning up, its sandbox surviving it.
_LAUNCHER = """
import os, signal, sys
from cloche.walls.jail import cgroups
groups = cgroups.detect()
group = groups.create()
group.limit(64 << 20, 16 << 20, 1, 10)
child = group.fork()
if child == 0:
    os.closerange(0, 100)
    signal.pause()
print(group.name, child, flush=True)
sys.stdin.read()
"""


def _names(groups: cgroups.Cgroups) -> set[str]:
    return {name for place in groups.descriptors() for name in os.listdir(place)}


def _first_line(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_sweep_removes_what_dead_owners_left_and_nothing_of_the_living(groups):
    _needs(groups, "memory")
    arguments = [sys.executable, "-c", _LAUNCHER]
    source = os.path.abspath(os.path.join(os.path.dirname(cgroups.__file__), "../../.."))
    environment = {**os.environ, "PYTHONPATH": source}
    launchers = [
        subprocess.Popen(arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    (dead, dead_child), (living, living_child) = [_first_line(launcher) for launcher in launchers]
    pidfd = os.pidfd_open(int(dead_child))
    launchers[0].kill()
    launchers[0].wait()
    try:
        assert {dead, living} <= _names(groups)
        end = time.monotonic() + DEADLINE_S
        while dead in groups.sweep() and time.monotonic() < end:
            select.select([pidfd], [], [], 0.01)
        assert dead not in _names(groups)
        assert select.select([pidfd], [], [], DEADLINE_S)[0], "what was in the group must be dead"
        assert living in _names(groups)
        os.kill(int(living_child), 0)
    finally:
        os.close(pidfd)
        launchers[1].kill()
        for launcher in launchers:
            launcher.communicate()
        while groups.sweep():
            select.select([], [], [], 0.001)
    assert not _names(groups) & {dead, living}


def test_only_the_process_that_detected_sweeps(groups):
    groups.create().close()
    elsewhere = cgroups.Cgroups.from_description({**groups.to_description(), "owner": "1-1"})
    before = _names(groups)
    assert elsewhere.sweep() == []
    assert _names(groups) == before
    assert groups.sweep() == []
    assert not any(groups.owner in name for name in _names(groups))


def test_a_description_works_without_the_hosts_file_system(groups):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chroot("/proc/self/fdinfo")  # a place with nothing in it
            os.chdir("/")
            made = cgroups.Cgroups.from_description(groups.to_description()).create()
            made.limit(64 * MIB, 16 * MIB, 1, 10)
            child = made.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            made.check()
            made.usage()
            _remove(made)
            os.write(write, b"fine")
        finally:
            os._exit(0)
    os.close(write)
    answer = os.read(read, 10)
    os.close(read)
    os.waitpid(pid, 0)
    assert answer == b"fine"


_DETECTOR = """
import os, subprocess, sys
from cloche.walls.jail import cgroups
with open(sys.argv[1] + "/cgroup.procs", "w") as file:
    file.write("0")
other = subprocess.Popen(["sleep", "1000"]) if sys.argv[2] == "shared" else None
groups = cgroups.detect()
print(*sorted(groups.controllers), os.readlink(f"/proc/self/fd/{groups.descriptors()[0]}"))
if other:
    other.kill()
    other.wait()
"""


@pytest.mark.parametrize("company", ["alone", "shared"])
def test_version_2_is_divided_below_us_if_we_are_alone_and_beside_us_if_not(groups, company):
    if groups.controllers.get("memory") != 2:
        pytest.skip("memory is not under version 2 here; scripts/test-on-cgroup2 runs this where it is")
    place = os.readlink(f"/proc/self/fd/{groups.descriptors()[0]}")
    above, own = f"{place}/test-{os.getpid()}", f"{place}/test-{os.getpid()}/own"
    os.makedirs(own)
    try:
        with open(above + "/cgroup.subtree_control", "w") as file:
            file.write("+memory +pids +cpu")
        source = os.path.abspath(os.path.join(os.path.dirname(cgroups.__file__), "../../.."))
        command = [sys.executable, "-c", _DETECTOR, own, company]
        done = subprocess.run(command, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["cpu", "memory", "pids", own if company == "alone" else above]
    finally:
        for folder, _, _ in os.walk(above, topdown=False):
            os.rmdir(folder)


def test_what_is_missing_is_said_in_a_sentence(groups):
    for controller in ("memory", "cpu", "pids"):
        assert groups.limits(controller) != (controller in groups.missing)
    assert all(reason.endswith(".") for reason in groups.missing.values())


def test_a_container_whose_groups_are_read_only_is_not_told_to_start_as_root(monkeypatch):
    def mkdir(path, mode=0o777, *, dir_fd=None):
        raise OSError(errno.EROFS, "Read-only file system", path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    missing: dict[str, str] = {}
    assert cgroups._probe(-1, 2, ["memory"], "owner", missing) == []
    assert "docker run --memory" in missing["memory"]
    assert "root" not in missing["memory"]
