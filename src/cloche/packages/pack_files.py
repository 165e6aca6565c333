"""Packs the files of a sandbox into an archive; a program of the standard library alone, which runs in that sandbox.

python3 pack_files.py ARCHIVE FOLDER-TO-LEAVE-OUT
python3 pack_files.py --clear   removes all files that it would pack
"""

import os
import stat
import sys
import tarfile

# Folders that every sandbox has anew, or that belong to Cloche.
SYSTEM = frozenset(
    (
        *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "opt", "dev", "sys", "proc", "run"),
        *("tmp", "home"),  # /home/user is /sandbox
    )
)
# Links at the top of every sandbox.
USUAL_LINKS = frozenset(("data", "var/tmp", "mnt/data"))


def main(target: str, left_out: str) -> None:
    """Write the archive."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(os.listdir("/")):
            if name not in SYSTEM and name not in USUAL_LINKS:
                add(archive, f"/{name}", left_out)


def add(archive: tarfile.TarFile, path: str, left_out: str) -> None:
    """Add a file, a link, or a folder with all that it contains."""
    try:
        status = os.lstat(path)
    except OSError:
        return  # a program has just removed it
    if path == left_out or path[1:] in USUAL_LINKS:
        return
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        return  # sockets, fifos and devices belong to programs that run
    try:
        archive.add(path, path[1:], recursive=False)
        names = sorted(os.listdir(path)) if stat.S_ISDIR(mode) else []
    except OSError:
        return  # not readable
    for name in names:
        add(archive, f"{path}/{name}", left_out)


def clear() -> None:
    """Remove the files of this sandbox that would be packed."""
    device = os.stat("/").st_dev
    for name in os.listdir("/"):
        if name not in SYSTEM:
            remove(f"/{name}", device)


def remove(path: str, device: int) -> None:
    """Remove a file, a link, or a folder with its contents; never what is mounted from the host."""
    try:
        status = os.lstat(path)
        if status.st_dev != device or path[1:] in USUAL_LINKS:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(path)
            return
        for name in os.listdir(path):
            remove(f"{path}/{name}", device)
        os.rmdir(path)
    except OSError:
        return  # a mount point, or a folder with one in it


if __name__ == "__main__":
    sys.setrecursionlimit(100_000)
    if sys.argv[1:] == ["--clear"]:
        clear()
    else:
        main(*sys.argv[1:])
