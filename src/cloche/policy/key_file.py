"""Files with a key: the admin's, and the one for secrets.  At no moment can any user except its owner read them."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from secrets import token_urlsafe

from cloche.errors import Misconfigured

_SECRET = re.compile(r"cloche_[A-Za-z0-9_-]{43}")


def new_secret() -> str:
    """Make a key: 256 random bits behind a prefix by which scanners for leaked secrets recognize it."""
    return f"cloche_{token_urlsafe(32)}"


def looks_like_a_secret(text: str) -> bool:
    """Return whether a text has the form of a key."""
    return _SECRET.fullmatch(text) is not None


def read(path: Path, *, of_anybody: bool = False, what: str = "The admin's key") -> str | None:
    """Read the key in a file; None if there is no such file.  A server trusts only a file that its own user made."""
    try:
        # Not through a symbolic link, and without waiting for the other end of a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        reason = "it is a symbolic link" if problem.errno == errno.ELOOP else problem.strerror
        raise Misconfigured(
            f"{what} in {path} cannot be read: {reason}.", hint="Be the user who runs the server."
        ) from None
    try:
        _check(path, os.fstat(fd), of_anybody, what)
        text = os.read(fd, 1024).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
    if not looks_like_a_secret(text):
        raise Misconfigured(f"What is in {path} is not a key.", hint="Remove the file: the next start makes a new one.")
    return text


def make(path: Path, secret: str, *, replace: bool = False, what: str = "The admin's key") -> bool:
    """Write a key into a file; return False if the file exists already, unless `replace` is set."""
    try:
        return _make(path, secret, replace)
    except OSError as problem:
        raise Misconfigured(
            f"{what} cannot be written to {path}: {problem.strerror}.",
            hint="Let the server's user write there, or choose another folder: --data-dir or CLOCHE_DATA_DIR.",
        ) from None


def _make(path: Path, secret: str, replace: bool) -> bool:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written beside its place and moved there, so that an interrupted start leaves no half-written key.
    fresh = path.with_name(f".{path.name}.{token_urlsafe(8)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(f"{secret}\n")
            file.flush()
            os.fsync(fd)
        if replace:
            os.rename(fresh, path)
        else:
            os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink(missing_ok=True)
    return True


def _check(path: Path, found: os.stat_result, of_anybody: bool, what: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Misconfigured(f"{path} is not a file.", hint="Remove it: the next start makes a new key there.")
    if found.st_mode & 0o077:
        raise Misconfigured(
            f"{what} in {path} can be read by others (mode {stat.S_IMODE(found.st_mode):04o}).",
            hint=f"Run `chmod 600 {path}`; if others may have read it, remove the file and the next start makes a new "
            "key, then revoke the old one.",
        )
    if found.st_uid != os.geteuid() and not of_anybody:
        raise Misconfigured(
            f"{what} in {path} belongs to another user (uid {found.st_uid}), who can read it.",
            hint="Remove the file, or start the server as that user.",
        )
