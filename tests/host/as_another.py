"""Run a command as somebody else than root: `as_another.py user|ids|one-id COMMAND …`, for tests that root runs.

    user    an ordinary user, without any capability
    ids     root of a container that maps 65536 ids
    one-id  root of a user namespace that maps a single id

The interpreter, and the clone, may lie where only root can go.  So the same paths are made anew, in a mount namespace
of our own, with nothing in them but these.
"""

from __future__ import annotations

import os
import sys

from cloche.agent.python import set_dumpable
from cloche.walls.jail import linux

UID = 61234
FIRST = 7_000_000


CLONE = os.path.realpath(f"{os.path.dirname(__file__)}/../..")


def show_to_all(*folders: str) -> None:
    held = {folder: linux.open_tree(folder) for folder in folders if is_hidden(folder)}
    for top in {"/" + folder.split("/")[1] for folder in held}:
        linux.mount("shown", top, "tmpfs", 0, "mode=755")
    for folder, tree in held.items():
        os.makedirs(folder)
        linux.move_mount(tree, folder)


def is_hidden(folder: str) -> bool:
    """Is there a folder on the way that others may not enter?"""
    parts = folder.split("/")
    return any(not os.stat("/".join(parts[:end]) or "/").st_mode & 0o001 for end in range(1, len(parts)))


def enter_user_namespace(mapping: str) -> None:
    """Become its root; a child in the namespace above writes the map."""
    ready, done = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.read(ready[0], 1)
        for kind in ("gid", "uid"):
            with open(f"/proc/{parent}/{kind}_map", "w") as file:
                file.write(mapping)
        os.write(done[1], b".")
        os._exit(0)
    linux.unshare(linux.NEWUSER)
    os.write(ready[1], b".")
    os.read(done[0], 1)
    os.wait()
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def main(who: str, command: list[str]) -> None:
    linux.unshare(linux.NEWNS)
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    show_to_all(os.path.realpath(sys.base_prefix), CLONE)
    os.setgroups([])
    if who == "user":
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    elif who == "ids":
        enter_user_namespace(f"0 {FIRST} 65536")
    else:
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        set_dumpable(True)  # which the change of uid has ended: our own /proc/self is ours to write
        linux.unshare(linux.NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {UID} 1"), ("gid_map", f"0 {UID} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    os.environ.update(HOME="/tmp", PYTHONDONTWRITEBYTECODE="1")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
