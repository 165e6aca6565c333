"""Toolchains: where the host has them, where sandboxes see them, and what to do when it has none.

Looking is done by file names alone, since it is part of starting: nothing is executed but for a version.
"""

from __future__ import annotations

import os

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSIDE = "/opt/toolchains"  # where those are seen that the sandboxes' /usr does not have
_SHARED = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")  # what a sandbox has of the host, under the same name
_ON_PATH = ("/opt/env/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Toolchain(Plain):
    """The programs that a language needs, and how to come by them."""

    programs: tuple[str, ...]  # all are needed; the first tells the version
    instead: tuple[tuple[str, ...], ...] = ()  # other sets of programs that do as well, the best first
    folders: tuple[str, ...] = ()  # where else than on PATH: `~`, `$NAME` and `*` are expanded, the highest name wins
    version: tuple[str, ...] = ("--version",)  # what the first program is asked
    pattern: str = r"(\d+\.\d+(?:\.\d+)*)"  # and what of its answer is the version
    least: str = ""  # the oldest version that does
    apt: tuple[str, ...] = ()  # Debian's packages
    otherwise: str = ""  # how to get it where apt does not have it
    home: Callable[[str], str] | None = None  # from the first program's file to the folder to show; else bin's parent
    inside: bool = False  # the programs are in the sandboxes' own environment, not on the host
    package: str = ""  # one of that environment that is needed as well, and whose version is the language's


class Found(Plain):
    """A toolchain that is there."""

    programs: dict[str, str]  # paths as sandboxes see them
    on_host: str = ""  # of the first program
    mount: tuple[str, str] | None = None  # a folder of the host, and where it goes
    prepared: str | None = None  # what was made ahead, as sandboxes see it (see prepared.py)

    def __getitem__(self, program: str) -> str:
        return self.programs[program]

    @property
    def first(self) -> str:
        """The program that matters most, whatever it is called."""
        return next(iter(self.programs.values()))

    @property
    def folder(self) -> str:
        """Where its programs are, in a sandbox."""
        return os.path.dirname(self.first)


def find(name: str, toolchain: Toolchain) -> Found | None:
    """Where this host has it; None where it has not."""
    if toolchain.inside:
        return Found({program: program for program in toolchain.programs})
    for programs in (toolchain.programs, *toolchain.instead):
        found = _find(name, toolchain.replace(programs=programs))
        if found is not None:
            return found
    return None


def _find(name: str, toolchain: Toolchain) -> Found | None:
    for folder in _folders(toolchain):
        if all(os.access(os.path.join(folder, program), os.X_OK) for program in toolchain.programs):
            found = _seen(name, toolchain, folder)
            if found is not None:
                return found
    return _scattered(toolchain)


def _seen(name: str, toolchain: Toolchain, folder: str) -> Found | None:
    """Programs of one folder, as sandboxes see them."""
    first = os.path.join(folder, toolchain.programs[0])
    real = os.path.realpath(first)
    if real.startswith(_SHARED):
        where = folder if folder.startswith(_SHARED) else os.path.dirname(real)
        programs = {program: os.path.join(where, program) for program in toolchain.programs}
        if all(os.path.exists(path) for path in programs.values()):
            return Found(programs, first)
    home = toolchain.home(first) if toolchain.home is not None else os.path.dirname(os.path.dirname(real))
    if not home or home in ("/", os.path.expanduser("~")) or not os.path.isdir(home):
        return None  # a script in somebody's ~/bin: more than the toolchain would be shown
    if not all(os.path.exists(os.path.join(home, "bin", program)) for program in toolchain.programs):
        return None
    inside = f"{INSIDE}/{name}"
    programs = {program: f"{inside}/bin/{program}" for program in toolchain.programs}
    return Found(programs, os.path.join(home, "bin", toolchain.programs[0]), (home, inside))


def _scattered(toolchain: Toolchain) -> Found | None:
    """Programs that lie in several of the folders which a sandbox has, too."""
    programs = {}
    for program in toolchain.programs:
        path = next((f"{folder}/{program}" for folder in _ON_PATH if os.path.exists(f"{folder}/{program}")), None)
        if path is None:
            return None
        programs[program] = path
    return Found(programs, programs[toolchain.programs[0]])


def _folders(toolchain: Toolchain) -> Iterator[str]:
    """PATH, then the usual places; a version manager's shims are passed over: scripts that need its home."""
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        if os.path.isabs(folder) and os.path.basename(folder) != "shims":
            yield folder
    yield from (folder for folder in _ON_PATH if folder != "/opt/env/bin")
    for pattern in toolchain.folders:
        expanded = os.path.expandvars(os.path.expanduser(pattern))
        if "$" in expanded:
            continue
        if "*" not in expanded:
            yield expanded
            continue
        from glob import glob

        yield from sorted(glob(expanded), key=_natural, reverse=True)


def _natural(path: str) -> list[tuple[int, str]]:
    """So that 1.10 comes after 1.9."""
    from re import findall

    return [(int(part), "") if part.isdigit() else (-1, part) for part in findall(r"\d+|\D+", path)]


def version(toolchain: Toolchain, found: Found) -> str | None:
    """Which version it is; None when it does not say."""
    import re
    import subprocess

    try:
        told = subprocess.run(
            [found.on_host or toolchain.programs[0], *toolchain.version],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(toolchain.pattern, told)
    return number.group(1) if number else None


def is_old(toolchain: Toolchain, number: str) -> bool:
    """Is it older than what does?"""
    return bool(toolchain.least) and _natural(number) < _natural(toolchain.least)
