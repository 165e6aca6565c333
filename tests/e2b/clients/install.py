"""E2B's own clients, installed beside our packages but apart from them; from locks, and once."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

LOCKS = Path(__file__).resolve().parent
PLACE = Path(sys.prefix)  # `make clean` removes all of it


def python() -> Path:
    """A Python that has them."""
    folder = PLACE / "e2b-clients"

    def make() -> None:
        venv.create(folder, with_pip=True, clear=True)
        lock = str(LOCKS / "clients.lock")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        subprocess.run([*pip, "--only-binary", ":all:", "-r", lock], check=True, timeout=300)

    ensure(folder, LOCKS / "clients.lock", make)
    return folder / "bin" / "python"


def node() -> Path:
    """A folder in which Node finds them."""
    folder = PLACE / "e2b-node"

    def make() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(LOCKS / name, folder)
        npm = ["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(npm, check=True, timeout=300, cwd=folder)

    ensure(folder, LOCKS / "package-lock.json", make)
    return folder


def node_is_recent() -> bool:
    """Is Node one that they can be used with?"""
    told = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    return tuple(map(int, told.strip().removeprefix("v").split(".")[:2])) >= (20, 18)


def ensure(folder: Path, lock: Path, make: Callable[[], None]) -> None:
    """Make a folder of packages unless it is there already, once, however many processes want it."""
    wanted = sha256(lock.read_bytes()).hexdigest()
    stamp = folder / ".made-of"
    if stamp.exists() and stamp.read_text() == wanted:
        return  # also for a user who may not write here
    with open(folder.with_suffix(".lock"), "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            make()
            stamp.write_text(wanted)
