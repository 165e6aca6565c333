"""Starts a nursery, and stays as its keeper.

Run by start.py, mostly as a script with an empty environment, with the engine's control socket as descriptor 3.  It
takes the namespaces that a nursery needs, forks, and waits: the child builds the root file system and becomes the
nursery (exec, so that nothing of this process is left in it); the parent finds out meanwhile what else the nursery has
to know, and remains, so that whoever is killed first, the control groups are cleaned up.
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
UID_BASE = 0x70000000  # host uids of sandboxes run by root: this plus the pid, so no two alive share one
UID_SPAN = 1 << 22  # the largest pid there can be
# What root needs to make sandboxes of other users: CAP_CHOWN, _DAC_OVERRIDE, _KILL, _SETGID, _SETUID, _NET_ADMIN (their
# loopback), _SYS_PTRACE (their user maps), _SYS_ADMIN, _MKNOD.  A container may give it any part of these.
MIGHT = sum(1 << capability for capability in (0, 1, 5, 6, 7, 12, 19, 21, 27))


def keep_or_tell(configuration: dict[str, Any], the_rest: Callable[[], dict[str, Any]] = dict) -> int:
    """Be the keeper of a nursery, or tell the engine why there will be none; the exit code."""
    try:
        keep(configuration, the_rest)
    except Exception as problem:
        report(problem)
        return 1
    return 0


def keep(configuration: dict[str, Any], the_rest: Callable[[], dict[str, Any]]) -> None:
    """Become the keeper; the child becomes the nursery.

    The root file system is built from `configuration`; what only the nursery needs may be left to `the_rest`, which is
    asked while its Python starts.
    """
    from cloche.walls import sockets
    from cloche.walls.jail import linux

    linux.close_all_but((0, 1, 2, CONTROL))
    os.setsid()  # Ctrl-C is for the engine to think about
    os.umask(0o022)
    privileged = _enter_namespaces(linux)
    configuration["privileged"] = privileged
    host_mounts = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    ours, theirs = sockets.pair()
    until_exec, held = os.pipe2(os.O_CLOEXEC)
    nursery = os.fork()
    if nursery == 0:
        _become_nursery(configuration, theirs.fileno())
    theirs.close()
    os.close(held)
    os.read(until_exec, 1)  # it goes first: with us and the engine busy it would wait for a processor, of two
    os.close(until_exec)
    configuration.update(the_rest())
    configuration["uid_base"] = _uid_base() if privileged else None
    configuration["proc"] = [name for name in os.listdir("/proc") if not name.isdecimal()]
    configuration["filters"] = _filters(configuration["without"])
    groups = _find_groups(configuration)
    host_proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    descriptors = [host_mounts, host_proc, *(groups.descriptors() if groups is not None else ())]
    try:
        sockets.send(ours, marshal.dumps(configuration), descriptors)
    except OSError:
        pass  # it has failed, and told why
    ours.close()
    os.write(CONTROL, marshal.dumps({"starts": True}))
    os.close(CONTROL)  # its end tells the engine that the nursery is gone
    from cloche.agent import signals

    signals.signal(signals.SIGTERM, lambda *_: os.kill(nursery, signals.SIGKILL))  # the engine has no more patience
    os.wait()
    signals.signal(signals.SIGTERM, signals.SIG_IGN)  # its number may be another's by now; what follows is short
    deadline = time.monotonic() + 2
    while groups is not None and groups.sweep() and time.monotonic() < deadline:
        time.sleep(0.005)  # what was killed takes a moment to go, and nothing tells when it has


def _filters(without: list[str]) -> tuple[bytes, bytes]:
    from cloche.walls.jail import filter as system_calls

    return system_calls.for_sandboxes(without)


def _find_groups(configuration: dict[str, Any]) -> Any:
    from cloche.walls.jail import cgroups

    if "cgroups" in configuration["without"]:
        return None
    groups = cgroups.detect()
    if configuration["preload"]:  # for a single run, sweeping at its end is soon enough
        groups.sweep()  # what an earlier keeper, killed together with its nursery, had to leave
    configuration["cgroups"] = groups.to_description()
    return groups


def _enter_namespaces(linux: Any) -> bool:
    """As root: a mount and a pid namespace.  As anyone else: a user namespace first, which allows the others."""
    if os.geteuid() == 0 and _uid_base() is not None and _is_mighty():
        try:
            linux.unshare(linux.NEWNS | linux.NEWPID)
            linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
            return True
        except PermissionError:
            pass  # a security module has taken more away: not more than a user
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.NEWUSER | linux.NEWNS | linux.NEWPID)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    return False


def _is_mighty() -> bool:
    """Has this root all that it takes, or is it not more than a user, as in most containers?"""
    with open("/proc/self/status") as file:
        effective = int(file.read().partition("\nCapEff:")[2].split(None, 1)[0], 16)
    return effective & MIGHT == MIGHT


def _uid_base() -> int | None:
    """The first of the host uids for sandboxes; None where a container maps too few to give each its own."""
    with open("/proc/self/uid_map") as file:
        ranges = [[int(field) for field in line.split()] for line in file]
    for first, _, count in ranges:
        if first <= UID_BASE and first + count >= UID_BASE + UID_SPAN:
            return UID_BASE
    first, _, count = max(ranges, key=lambda entry: entry[2])
    return first + count - UID_SPAN if count > 2 * UID_SPAN else None


def _become_nursery(configuration: dict[str, Any], source: int) -> None:
    from cloche.walls.jail import linux, root

    linux.prctl(linux.PR_SET_PDEATHSIG, 9)
    linux.unshare(linux.NEWNS)
    # What a process was started with is for every program to read in /proc/self/cmdline.  So the configuration comes
    # through a socket, and the rest lies where a program's own source will lie, and looks like it.
    root.build(
        configuration,
        f"import gc, sys; gc.disable(); sys.path[0] = {root.LIBRARY!r}\n"
        "from cloche import bundles; bundles.load('nursery')\n"
        f"import cloche.walls.jail.nursery_main as n; n.main({source})",
    )
    for fd in (0, 1, 2, CONTROL, source):
        os.set_inheritable(fd, True)
    os.execve(
        root.PYTHON,
        ["python3", root.PROGRAM],
        {**root.environment(configuration.get("path", ())), **root.NURSERY_ENVIRONMENT},
    )


def report(problem: BaseException) -> None:
    """Tell the engine why there will be no nursery."""
    from cloche.walls import sockets

    message = {"failed": f"{type(problem).__name__}: {problem}", "errno": getattr(problem, "errno", None)}
    sockets.send(sockets.adopt(CONTROL), marshal.dumps(message))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__ + "/../../..")))
    sys.exit(keep_or_tell(marshal.loads(bytes.fromhex(sys.argv[1]))))
