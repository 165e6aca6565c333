"""Run a command as an ordinary user of another root file system: `enter_root.py ROOT HOME SHOWN… -- COMMAND …`.

Everything that is written goes to HOME, which is /home/user inside, and to a fresh /tmp; ROOT is read-only.  SHOWN are
files and folders of the host that are seen at the same place.  The root is entered by pivot_root, since the kernel
makes no user namespaces for processes in a `chroot`.
"""

from __future__ import annotations

import os
import sys

from cloche.walls.jail import linux

UID = 1000
MS_BIND_ALL = linux.MS_BIND | linux.MS_REC


def main(root: str, home: str, shown: list[str], command: list[str]) -> None:
    linux.unshare(linux.NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount(root, root, flags=linux.MS_BIND)
    for name in ("proc", "dev", "sys"):
        linux.mount(f"/{name}", f"{root}/{name}", flags=MS_BIND_ALL)
    linux.mount("tmp", f"{root}/tmp", "tmpfs", 0, "mode=1777")
    linux.mount("home", f"{root}/home", "tmpfs", 0, "mode=755")
    os.mkdir(f"{root}/home/user")
    linux.mount(home, f"{root}/home/user", flags=linux.MS_BIND)
    for path in shown:
        target = f"{root}{path}"
        if os.path.isdir(path):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "a").close()
        linux.mount(os.path.realpath(path), target, flags=linux.MS_BIND)
    linux.mount("none", root, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)
    os.chdir(root)
    linux.pivot_root(".", ".")
    linux.umount(".")
    os.chdir("/home/user")
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.environ.update(HOME="/home/user", PATH="/usr/bin:/bin", USER="user")
    os.execv(command[0], command)


if __name__ == "__main__":
    at = sys.argv.index("--")
    main(sys.argv[1], sys.argv[2], sys.argv[3:at], sys.argv[at + 1 :])
