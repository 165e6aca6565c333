"""What is made once for a language, ahead of all runs: a compiled standard library, class data, headers.

Made by us from nothing but the toolchain, and shown to every sandbox read-only: nobody's program has a part in it, so
nobody can leave anything in it for others.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.languages.language import Language
    from cloche.languages.toolchain import Found

INSIDE = "/opt/prepared"
_DONE = ".done"  # in a folder that is whole; it says which toolchain that was made by


def location() -> str:
    """Where on the host; a folder for each language and version in it."""
    return os.path.join(sys.prefix, "lib", "cloche", "prepared")


def shown() -> tuple[str, str]:
    """The folder as a mount; it is there, even when nothing is in it yet."""
    folder = location()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        pass  # not ours to write: the wall passes over what is not there
    return folder, INSIDE


def with_it(language: Language, found: Found) -> Found:
    """A toolchain with what was prepared for it, if it was."""
    if language.preparation is None:
        return found
    name = _name(language, found)
    if not os.path.exists(os.path.join(location(), name, _DONE)):
        return found
    return found.replace(prepared=f"{INSIDE}/{name}")


def on_host(found: Found) -> str | None:
    """The folder of the host that sandboxes see as `found.prepared`."""
    return None if found.prepared is None else os.path.join(location(), os.path.basename(found.prepared))


def is_wanted(language: Language, found: Found) -> bool:
    """Is there something to prepare that was not?"""
    return language.preparation is not None and with_it(language, found).prepared is None


def prepare(language: Language, found: Found, say: Callable[[str], None] = lambda _: None) -> None:
    """Make it; a second process that wants the same waits for the first."""
    from fcntl import LOCK_EX, flock

    assert language.preparation is not None
    shown()
    folder = os.path.join(location(), _name(language, found))
    with open(f"{folder}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        if os.path.exists(os.path.join(folder, _DONE)):
            return
        say(f"Preparing {language.title}: {language.preparation.what}")
        _make(language, found, folder)


def clear(language: Language, found: Found) -> None:
    """Remove what was made for toolchains that are no more, or in ways of old: it is large, and of no use again."""
    import re
    from fcntl import LOCK_EX, LOCK_NB, flock
    from shutil import rmtree

    kept = _name(language, found)
    for name in os.listdir(location()):
        folder = os.path.join(location(), name)
        ours = re.fullmatch(rf"{re.escape(language.name)}-\d+-[0-9a-f]{{12}}", name)
        if not ours or name == kept or _is_good(language, folder):
            continue
        try:
            with open(f"{folder}.lock", "w") as lock:
                flock(lock, LOCK_EX | LOCK_NB)
                rmtree(folder, ignore_errors=True)
                os.unlink(f"{folder}.lock")
        except OSError:
            continue  # another process is making it, or it is not ours


def _make(language: Language, found: Found, folder: str) -> None:
    from shutil import rmtree

    assert language.preparation is not None
    rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        language.preparation.make(found, folder)
        for place, _, files in os.walk(folder):  # sandboxes have other users than we
            os.chmod(place, 0o755)
            for name in files:
                path = os.path.join(place, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o755 if os.access(path, os.X_OK) else 0o644)
        with open(os.path.join(folder, _DONE), "w") as file:
            file.write(_toolchain(language, found.on_host))
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _is_good(language: Language, folder: str) -> bool:
    """Was it made in today's way, by a toolchain that is still there as it was?"""
    assert language.preparation is not None
    try:
        with open(os.path.join(folder, _DONE)) as file:
            maker = file.read()
    except OSError:
        return False
    version = os.path.basename(folder).split("-")[1]
    return version == str(language.preparation.version) and _toolchain(language, maker.rsplit(" ", 2)[0]) == maker


def _name(language: Language, found: Found) -> str:
    """Another toolchain, or another way of preparing it, is another folder."""
    from hashlib import sha256

    assert language.preparation is not None
    digest = sha256(_toolchain(language, found.on_host).encode()).hexdigest()[:12]
    return f"{language.name}-{language.preparation.version}-{digest}"


def _toolchain(language: Language, program: str) -> str:
    """What tells one from another, and from itself after an update."""
    real = os.path.realpath(program) if program else language.name
    try:
        status = os.stat(real)
    except OSError:
        return real
    return f"{real} {status.st_size} {status.st_mtime_ns}"
