"""Makes files for a language once, before any run: a compiled standard library, class data, compiled headers.

They are made from the toolchain alone, and every sandbox sees them read-only: no user's program takes part in making
them, so none can leave anything in them for others.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.languages.language import Language
    from cloche.languages.toolchain import FoundTools

INSIDE = "/opt/prepared"
_DONE = ".done"  # marks a complete folder, and names the toolchain that it was made with


def location() -> str:
    """Return the folder on the host; it contains a folder for each language and version."""
    from cloche import environment

    return os.path.join(environment.home(), "prepared")


def mount() -> tuple[str, str]:
    """Return the folder on the host and inside sandboxes; it is created if it does not exist."""
    folder = location()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        pass  # no permission: the wall skips folders that do not exist
    return folder, INSIDE


def with_prepared(language: Language, found: FoundTools) -> FoundTools:
    """Add the folder of prepared files to a toolchain, if there is one."""
    if language.preparation is None:
        return found
    name = _name(language, found)
    if not os.path.exists(os.path.join(location(), name, _DONE)):
        return found
    return found.replace(prepared=f"{INSIDE}/{name}")


def on_host(found: FoundTools) -> str | None:
    """Return the host's path of the folder that sandboxes see as `found.prepared`."""
    return None if found.prepared is None else os.path.join(location(), os.path.basename(found.prepared))


def is_missing(language: Language, found: FoundTools) -> bool:
    """Does the language have a preparation that was not made yet?"""
    return language.preparation is not None and with_prepared(language, found).prepared is None


def prepare(language: Language, found: FoundTools, say: Callable[[str], None] = lambda _: None) -> None:
    """Make the files; a second process that wants the same ones waits for the first."""
    from fcntl import LOCK_EX, flock

    assert language.preparation is not None
    mount()
    folder = os.path.join(location(), _name(language, found))
    with open(f"{folder}.lock", "w") as lock:
        flock(lock, LOCK_EX)
        if os.path.exists(os.path.join(folder, _DONE)):
            return
        say(f"Preparing {language.title}: {language.preparation.what}")
        _make(language, found, folder)


def remove_outdated(language: Language, found: FoundTools) -> None:
    """Remove files made for a toolchain that is gone, or by an older version of the preparation: they are large."""
    import re
    from fcntl import LOCK_EX, LOCK_NB, flock
    from shutil import rmtree

    kept = _name(language, found)
    for name in os.listdir(location()):
        folder = os.path.join(location(), name)
        ours = re.fullmatch(rf"{re.escape(language.name)}-\d+-[0-9a-f]{{12}}", name)
        if not ours or name == kept or _is_current(language, folder):
            continue
        try:
            with open(f"{folder}.lock", "w") as lock:
                flock(lock, LOCK_EX | LOCK_NB)
                rmtree(folder, ignore_errors=True)
                os.unlink(f"{folder}.lock")
        except OSError:
            continue  # another process is making it, or we may not write there


def _make(language: Language, found: FoundTools, folder: str) -> None:
    from shutil import rmtree

    assert language.preparation is not None
    rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    try:
        language.preparation.make(found, folder)
        for place, _, files in os.walk(folder):  # sandboxes run as other users
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


def _is_current(language: Language, folder: str) -> bool:
    """Was the folder made by this version of the preparation, with a toolchain that is still there unchanged?"""
    assert language.preparation is not None
    try:
        with open(os.path.join(folder, _DONE)) as file:
            maker = file.read()
    except OSError:
        return False
    version = os.path.basename(folder).split("-")[1]
    return version == str(language.preparation.version) and _toolchain(language, maker.rsplit(" ", 2)[0]) == maker


def _name(language: Language, found: FoundTools) -> str:
    """Name the folder: each toolchain and each version of the preparation has its own."""
    from hashlib import sha256

    assert language.preparation is not None
    digest = sha256(_toolchain(language, found.on_host).encode()).hexdigest()[:12]
    return f"{language.name}-{language.preparation.version}-{digest}"


def _toolchain(language: Language, program: str) -> str:
    """Describe a toolchain so that another one, or an updated one, has another description."""
    real = os.path.realpath(program) if program else language.name
    try:
        status = os.stat(real)
    except OSError:
        return real
    return f"{real} {status.st_size} {status.st_mtime_ns}"
