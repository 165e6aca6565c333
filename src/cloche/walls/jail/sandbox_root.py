"""The root of one sandbox: a file system of its own, which holds everything that the sandbox may write.

The nursery's read-only folders (root.py) are moved into it.  So programs can create `/workspace` or `/app`, all of it
counts against one quota, and no two sandboxes share a folder that either can write to.
"""

from __future__ import annotations

import os

from cloche.walls.jail import linux, root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.walls.jail.plan import Plan

TOP = f"{root.SCRATCH}/root"  # becomes / when the sandbox moves in
_INODES_PER_MIB = 256  # of the disk quota: a file of 4 KiB on average
_STORE, _SHM = f"{root.SCRATCH}/versions", f"{root.SCRATCH}/shm"  # beside the root, so they have no path inside
# The user owns these.
_FOLDERS = ("sandbox", "root", "home", "home/user", "mnt", "run", "var")
_LINKS = {"data": f"{root.WORKSPACE}/data", "mnt/data": "/data", "var/tmp": "/tmp"}

_mount_points: list[str] = []  # in the nursery's root, each with a read-only folder
_links: list[tuple[str, str]] = []  # such as bin, with their targets


def find_folders() -> None:
    """Note which folders and links the nursery's root has, once for all sandboxes."""
    names = [name for name in root.HOST_TOPS if os.path.lexists(f"/{name}")]
    _links[:] = [(name, os.readlink(f"/{name}")) for name in names if os.path.islink(f"/{name}")]
    if os.path.isdir(root.NODE_PACKAGES):
        # Node, its bundlers and the compiler of TypeScript look in the folders above a file, up to the root.
        _links.append(("node_modules", root.NODE_PACKAGES))
    folders = [name for name in names if not os.path.islink(f"/{name}")]
    _mount_points[:] = ["usr", *root.OWN_TOPS, *folders]


def make(plan: Plan, uid: int) -> tuple[int, int, int]:
    """Make the file system of a new sandbox, with the folders and links at its top.

    Returns three descriptors: of the file system, by which the nursery measures how full it is; of a folder in it that
    has no path in the sandbox, which only the agent uses; and of the root, without anything that is mounted in it.
    """
    owner = plan["root_uid"]
    inodes = max(1024, plan["disk"] // (1 << 20) * _INODES_PER_MIB)
    options = f"size={plan['disk']},nr_inodes={inodes},mode=1777,uid={owner},gid={owner}"
    linux.mount("workspace", root.SCRATCH, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
    os.umask(0)
    linux.set_file_owner(owner)
    # Anyone may create entries in the root.  Only their owners can remove them, so where the owner of the root is not
    # the user, links such as /bin stay.
    os.mkdir(TOP, 0o1777)
    for name in ("proc", *_mount_points):
        os.mkdir(f"{TOP}/{name}", 0o755)
    for name, target in _links:
        os.symlink(target, f"{TOP}/{name}")
    linux.set_file_owner(uid)
    for name in _FOLDERS:
        os.mkdir(f"{TOP}/{name}", 0o755)
    for name, target in _LINKS.items():
        os.symlink(target, f"{TOP}/{name}")
    os.mkdir(f"{TOP}/tmp", 0o1777)
    os.mkdir(_SHM, 0o1777)
    os.mkdir(_STORE, 0o700)
    linux.set_file_owner(0)
    os.umask(0o022)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    found = os.open(root.SCRATCH, os.O_PATH | os.O_CLOEXEC), os.open(_STORE, flags), os.open(TOP, flags)
    # A mount point cannot be removed or renamed: programs and the agent rely on /sandbox and /tmp.
    for path in (TOP, f"{TOP}{root.WORKSPACE}", f"{TOP}/tmp"):
        linux.mount(path, path, flags=linux.MS_BIND)
    return found


def take_folders() -> None:
    """Move the read-only folders of this mount namespace into the sandbox's root."""
    for name in _mount_points:
        linux.mount(f"/{name}", f"{TOP}/{name}", flags=linux.MS_MOVE)
    linux.mount(_SHM, f"{TOP}/dev/shm", flags=linux.MS_BIND)


def move_in() -> None:
    """Make the sandbox's root the root of this process.

    It is moved on top of the nursery's root, which is then out of reach and has only empty folders.  Unmounting
    that one would wait for every processor.
    """
    os.chdir(TOP)
    linux.mount(".", "/", flags=linux.MS_MOVE)
    os.chroot(".")
    os.chdir("/")  # so that the working directory is no way out
