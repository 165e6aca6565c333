"""The steps of a new sandbox into the jail.  Their order matters: each needs rights that a later step gives up.

The process is a fork of the nursery, pid 1 of a new pid namespace, and has all the rights of the nursery.  At the end
it is an ordinary user, sees nothing of the host, and is ready to be an agent.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import stat
from _struct import pack

from cloche.agent import signals
from cloche.walls import sockets
from cloche.walls.jail import linux, networks, root, sandbox_root, shown_limits
from cloche.walls.jail.claim import MAX_MOUNTS
from cloche.walls.jail.seal import seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.claim import MountData
    from cloche.walls.jail.plan import Plan

_TOP = sandbox_root.TOP
_MASKED_FILES = (
    "kcore",
    "keys",
    "key-users",
    "sysrq-trigger",
    "timer_list",
    "kallsyms",
    "kmsg",
    "config.gz",
    "cmdline",
    "interrupts",
    "latency_stats",
    "sched_debug",
)
_MASKED_FOLDERS = ("acpi", "asound", "scsi", "driver", "fs", "bus", "irq", "tty", "sysvipc", "pressure")
_TERMINALS = 64  # the kernel has about 3,000 for all sandboxes of all users together
_USER_LIMITS = {"max_inotify_instances": 32, "max_inotify_watches": 16384}
_IS_ANOTHER = (
    "a folder to mount is not the one that was checked, or a file system was mounted there after Cloche had started"
)
_NO_MAPPING = (
    "the file system of a folder to mount cannot show its files to another user: "
    "use a folder on ext4, XFS or Btrfs, or start Cloche as the owner of the folder instead of root"
)
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def enter(plan: Plan, nursery: sockets.Socket) -> tuple[int | None, int, int, int]:
    """Follow the plan (plan.py).  The nursery writes the user map when it gets the message for it.

    Returns the descriptor on which refused system calls are reported (refused_calls.py), the folder in which
    checkpoints keep files, the root without its mounts, and the agent's oom_score_adj (agent/oom_score.py).
    """
    without = plan["without"]
    host_pid = int(os.readlink("self", dir_fd=plan["host_proc"]))
    uid = plan["uid_base"] + host_pid % (1 << 22) if plan["privileged"] else 0
    os.setgroups([]) if plan["privileged"] else None
    fresh = "network" not in without and plan["network"] is None
    linux.unshare(linux.NEWNS | linux.NEWIPC | linux.NEWUTS | (linux.NEWNET if fresh else 0))
    if plan["network"] is not None:
        linux.setns(plan["network"], linux.NEWNET)
    mounts = _read_mounts(plan["mounts"])
    host_folders = _open_host_folders(plan, mounts)  # while the host's mounts can still be reached
    workspace, store, bare_root = sandbox_root.make(plan, uid)
    proc, oom_score = _mount_proc("masks" not in without, "proc" not in without, plan["privileged"])
    if plan["network"] is not None and "unused network" not in without:
        fresh = networks.state("self/net", proc) != plan["unused_network"]
        if fresh:
            linux.unshare(linux.NEWNET)
    sandbox_root.take_folders()  # after the masks, which are made of them
    terminals = "" if "terminals" in without else f",max={_TERMINALS}"
    options = f"newinstance,ptmxmode=0666,mode=620{terminals}"
    linux.mount("devpts", f"{_TOP}/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    _mount_host_folders(host_folders, uid, proc)
    linux.mount(f"{_TOP}{root.WORKSPACE}", f"{_TOP}{root.HOME}", flags=linux.MS_BIND | linux.MS_REC)
    if fresh:
        _raise_loopback()
    linux.sethostname("cloche")
    if "dumpable" not in without:
        # The kernel protects the agent's memory, because it is not dumpable.  But run by an ordinary user, the agent's
        # files in /proc belong to that user, and so to every program in the sandbox.
        linux.mount("/run/empty", f"{_TOP}/proc/1", flags=linux.MS_BIND)
    sandbox_root.move_in()  # from here on, paths are those of the sandbox
    if plan["privileged"] and "uid" not in without:
        # The kernel charges what a user namespace uses (inotify, pending signals …) to its creator as well: if that
        # were root, one sandbox could use up the quota of all others, and of the host's root.
        os.setresuid(-1, uid, -1)
    linux.unshare(linux.NEWUSER)
    sockets.send(nursery, b"%d %d" % (host_pid, uid), [workspace])
    if nursery.recv(1) != b"M":  # mapped, and in its control group
        os._exit(1)
    if "uid" not in without:
        _limit_namespace(proc)
    os.close(proc)
    if "cgroup namespace" not in without:
        linux.unshare(linux.NEWCGROUP)  # after it is in its group, which becomes the root of what it sees
    os.setresgid(root.UID, root.UID, root.UID)
    os.setresuid(root.UID, root.UID, root.UID)
    os.umask(0o022)
    _furnish(plan)
    return seal(plan, store), store, bare_root, oom_score


_masks: list[tuple[str, str]] = []  # the cover, and the path that it covers


def look_around(there: list[str]) -> None:
    """Note what the host has, once for all sandboxes; `there` are the names in /proc that are no processes."""
    sandbox_root.find_folders()
    _masks[:] = [("/dev/null", f"{_TOP}/proc/{name}") for name in _MASKED_FILES if name in there]
    _masks.extend(("/run/empty", f"{_TOP}/proc/{name}") for name in _MASKED_FOLDERS if name in there)


def _mount_proc(masked: bool, read_only: bool, privileged: bool) -> tuple[int, int]:
    """Mount the sandbox's own /proc; return a descriptor that can still write to it, and the agent's oom_score_adj."""
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", f"{_TOP}/proc", "proc", flags)
    writable = os.open(f"{_TOP}/proc", os.O_PATH | os.O_CLOEXEC)
    oom_score = os.open("self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC, dir_fd=writable)
    if masked and read_only:
        # A second mount on top of the first one is read-only: programs cannot change settings of the kernel, and cannot
        # lower their oom_score_adj.  Where an ordinary user runs the sandbox, no permission would prevent the latter.
        linux.mount("proc", f"{_TOP}/proc", "proc", flags | linux.MS_RDONLY)
    if not privileged:
        # The kernel lets an ordinary user mount a fresh /proc only while an unmasked one is visible: so the host's is
        # unmounted afterwards.
        linux.umount("/proc")
    for cover, path in _masks if masked else ():
        linux.mount(cover, path, flags=linux.MS_BIND)
    return writable, oom_score


def _limit_namespace(proc: int) -> None:
    """Limit what the kernel counts per user: all sandboxes of an ordinary user share that user's quota."""
    for name, value in _USER_LIMITS.items():
        file = os.open(f"sys/user/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(file, b"%d" % value)
        finally:
            os.close(file)


def _furnish(plan: Plan) -> None:
    """Make the folders that every workspace has; by the sandbox's own user, who then owns them."""
    for name in root.FOLDERS:
        try:
            os.mkdir(f"{root.WORKSPACE}/{name}")
        except FileExistsError:
            pass  # a folder of the host is mounted below it
    root.furnish_tmp()
    shown_limits.furnish(plan["cpus"], plan["memory"])


def _read_mounts(source: int) -> list[MountData]:
    """Read the caller's mounts here, not in the nursery, from whose memory other callers' sandboxes are forked."""
    if source < 0:
        return []
    mounts: list[MountData] = marshal.loads(os.read(source, MAX_MOUNTS))
    return mounts


def _open_host_folders(plan: Plan, mounts: list[MountData]) -> list[tuple[int, MountData]]:
    if not mounts:
        return []
    here = os.open("self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=plan["host_proc"])
    linux.setns(plan["host_mounts"], linux.NEWNS)
    try:
        return [(_open_host_folder(mount), mount) for mount in mounts]
    finally:
        linux.setns(here, linux.NEWNS)
        os.close(here)


def _open_host_folder(mount: MountData) -> int:
    """Open the very folder that was checked.  A sandbox that writes beside it may have put another in its place."""
    fd = linux.open_real_tree(mount["source"])
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != tuple(mount["identity"]):
        os.close(fd)
        raise OSError(errno.ESTALE, _IS_ANOTHER)
    return fd


def _mount_host_folders(folders: list[tuple[int, MountData]], uid: int, proc: int) -> None:
    for fd, mount in folders:
        flags = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
        if not mount["writable"]:
            flags |= linux.MOUNT_ATTR_RDONLY
        linux.mount_setattr(fd, flags)
        owner = os.fstat(fd).st_uid
        if uid and owner != uid:
            _map_owner(fd, owner, uid, proc, mount["writable"])
        target = _TOP + mount["target"]
        _make_way(target, stat.S_ISDIR(os.fstat(fd).st_mode), uid)
        linux.move_mount(fd, target)
        os.close(fd)


def _is_open_to_all(fd: int, writable: bool) -> bool:
    """Return whether a user who owns nothing in a folder can use it; the broker's folders for downloads are such."""
    needed = stat.S_IROTH | stat.S_IXOTH | (stat.S_IWOTH if writable else 0)
    found = os.fstat(fd).st_mode
    return stat.S_ISDIR(found) and found & needed == needed


def _map_owner(fd: int, owner: int, uid: int, proc: int, writable: bool) -> None:
    """Let the uid of a sandbox that root runs act as the owner of a mounted folder, in that folder only.

    Where the file system cannot do that, a folder that is open to everybody is shown as it is.
    """
    reading, writing = os.pipe()
    helper = os.fork()
    if helper == 0:
        linux.unshare(linux.NEWUSER)
        os.write(writing, b".")
        while True:
            signals.pause()
    try:
        os.read(reading, 1)
        for kind in ("uid", "gid"):
            file = os.open(f"{helper}/{kind}_map", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            os.write(file, f"{owner} {uid} 1".encode())
            os.close(file)
        namespace = os.open(f"{helper}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            linux.mount_setattr(fd, linux.MOUNT_ATTR_IDMAP, namespace)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            if not _is_open_to_all(fd, writable):
                raise OSError(errno.EINVAL, _NO_MAPPING) from None
        finally:
            os.close(namespace)
    finally:
        os.kill(helper, 9)
        os.waitpid(helper, 0)
        os.close(reading)
        os.close(writing)


def _make_way(target: str, is_folder: bool, uid: int) -> None:
    """Make the mount point, inside the workspace; that is still empty, so no link can lead elsewhere."""
    path = ""
    for part in target.strip("/").split("/")[:-1]:
        path += f"/{part}"
        if not os.path.isdir(path):
            os.mkdir(path, 0o755)
            os.chown(path, uid, uid)
    if is_folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o644))


def _raise_loopback() -> None:
    any_socket = sockets.for_ioctl()
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, pack("16sh14x", b"lo", _IFF_UP))
    any_socket.close()
