"""Starts a nursery, and stays as its keeper.

start.py runs this, mostly as a script with an empty environment, with the engine's control socket as descriptor 3.  The
process makes the namespaces that a nursery needs, and forks.  The child builds the root file system and becomes the
nursery (by exec, so that nothing of this process is left in it).  The parent meanwhile finds out the rest of the
nursery's configuration, and then waits, so that the control groups are removed whichever process is killed first.
"""

from __future__ import annotations

import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL = 3
# Host uids of sandboxes run by root: this plus the pid, so no two alive share one.  The uid before it owns the root and
# /etc of all of them, which are read-only or cannot be removed by others; no process ever has it.
UID_BASE = 0x70000000
UID_SPAN = 1 << 22  # the largest possible pid
# The capabilities that root needs to give each sandbox a user of its own: CAP_CHOWN, _DAC_OVERRIDE, _KILL, _SETGID,
# _SETUID, _NET_ADMIN (for their loopback), _SYS_CHROOT, _SYS_PTRACE (for their user maps), _SYS_ADMIN, _MKNOD.
# In a container it may have any part of these.
MIGHT = sum(1 << capability for capability in (0, 1, 5, 6, 7, 12, 18, 19, 21, 27))


def keep_or_tell(configuration: dict[str, Any], the_rest: Callable[[], dict[str, Any]] = dict) -> int:
    """Start a nursery and be its keeper, or report to the engine why it cannot start; return the exit code."""
    try:
        keep(configuration, the_rest)
    except Exception as problem:
        report(problem)
        return 1
    return 0


def keep(configuration: dict[str, Any], the_rest: Callable[[], dict[str, Any]]) -> None:
    """Become the keeper; the child becomes the nursery.

    The root file system is built from `configuration`.  `the_rest` returns the part that only the nursery needs; it is
    called while the nursery's Python starts.
    """
    from cloche.walls import sockets
    from cloche.walls.jail import linux

    linux.close_all_but((0, 1, 2, CONTROL))
    os.setsid()  # the engine handles Ctrl-C
    os.umask(0o022)
    privileged = _enter_namespaces(linux)
    configuration["privileged"] = privileged
    configuration["uid_base"] = base = _uid_base() if privileged else None
    configuration["root_uid"] = 0 if base is None else base - 1
    host_mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    ours, theirs = sockets.pair()
    until_exec, held = os.pipe2(os.O_CLOEXEC)
    nursery = os.fork()
    if nursery == 0:
        _become_nursery(configuration, theirs.fileno())
    theirs.close()
    os.close(held)
    # The nursery goes first: on two processors it would have to wait for this process and the engine.
    os.read(until_exec, 1)
    os.close(until_exec)
    configuration.update(the_rest())
    configuration["proc"] = [name for name in os.listdir("/proc") if not name.isdecimal()]
    groups = _find_groups(configuration)
    configuration["filters"] = _filters(configuration["without"], groups is None or groups.limits("memory"))
    host_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    descriptors = [host_mounts, host_proc, *(groups.descriptors() if groups is not None else ())]
    try:
        sockets.send(ours, marshal.dumps(configuration), descriptors)
    except OSError:
        pass  # the nursery has failed, and has reported the reason to the engine
    ours.close()
    os.write(CONTROL, marshal.dumps({"starts": True}))
    os.close(CONTROL)  # when the last copy closes, the engine learns that the nursery is gone
    from cloche.agent import signals

    signals.signal(signals.SIGTERM, lambda *_: os.kill(nursery, signals.SIGKILL))  # the engine waits no longer
    os.wait()
    # Another process may have the nursery's pid by now, and the rest takes little time.
    signals.signal(signals.SIGTERM, signals.SIG_IGN)
    deadline = time.monotonic() + 2
    while groups is not None and groups.sweep() and time.monotonic() < deadline:
        time.sleep(0.005)  # killed processes take a moment to disappear, without an event


def _filters(without: list[str], shared_memory: bool) -> tuple[bytes, bytes]:
    from cloche.walls.jail import filter as system_calls

    return system_calls.for_sandboxes(without, shared_memory)


def _find_groups(configuration: dict[str, Any]) -> Any:
    from cloche.walls.jail import cgroups

    if "cgroups" in configuration["without"]:
        return None
    groups = cgroups.detect()
    if configuration["preload"]:  # for a single run it is enough to sweep at its end
        groups.sweep()  # the groups of an earlier keeper that was killed together with its nursery
    configuration["cgroups"] = groups.to_description()
    return groups


def _enter_namespaces(linux: Any) -> bool:
    """Enter a mount and a pid namespace; without root's rights, a user namespace first, which allows the others."""
    if os.geteuid() == 0 and _uid_base() is not None and _is_mighty():
        try:
            linux.unshare(linux.NEWNS | linux.NEWPID)
            linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
            return True
        except PermissionError:
            pass  # a security module refuses it: go on as an ordinary user
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.NEWUSER | linux.NEWNS | linux.NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    return False


def _is_mighty() -> bool:
    """Return whether root has all the capabilities that it needs here.  In most containers it does not."""
    with open("/proc/self/status") as file:
        effective = int(file.read().partition("\nCapEff:")[2].split(None, 1)[0], 16)
    return effective & MIGHT == MIGHT


def _uid_base() -> int | None:
    """The first of the host uids for sandboxes; None where a container maps too few for one per sandbox."""
    with open("/proc/self/uid_map") as file:
        ranges = [[int(field) for field in line.split()] for line in file]
    for first, _, count in ranges:
        if first < UID_BASE and first + count >= UID_BASE + UID_SPAN:
            return UID_BASE
    first, _, count = max(ranges, key=lambda entry: entry[2])
    return first + count - UID_SPAN if count > 2 * UID_SPAN else None


def _become_nursery(configuration: dict[str, Any], source: int) -> None:
    from cloche.walls.jail import linux, root

    linux.unshare(linux.NEWNS)
    # Every program can read in /proc/self/cmdline how its process was started.  So the configuration comes through a
    # socket, and the nursery's own program has the path that a user's program will have later.
    root.build(
        configuration,
        f"import gc, sys; gc.disable(); sys.path[0] = {root.LIBRARY!r}\n"
        "from cloche import bundles; bundles.load('nursery')\n"
        f"import cloche.walls.jail.nursery_main as n; n.main({source})",
    )
    linux.prctl(linux.PR_SET_PDEATHSIG, 9)  # after the changes of the owner of new files, which clear it
    for fd in (0, 1, 2, CONTROL, source):
        os.set_inheritable(fd, True)
    os.execve(
        root.PYTHON,
        ["python3", root.PROGRAM],
        {**root.environment(configuration.get("path", ())), **root.NURSERY_ENVIRONMENT},
    )


def report(problem: BaseException) -> None:
    """Report to the engine why the nursery cannot start."""
    from cloche.walls import sockets

    message = {"failed": f"{type(problem).__name__}: {problem}", "errno": getattr(problem, "errno", None)}
    sockets.send(sockets.adopt(CONTROL), marshal.dumps(message))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__ + "/../../..")))
    sys.exit(keep_or_tell(marshal.loads(bytes.fromhex(sys.argv[1]))))
