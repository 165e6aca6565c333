"""Finds the toolchains of languages on the host, and where sandboxes see them.

The search is part of starting a run, so it looks at file names only: no program is executed except to ask its version.
"""

from __future__ import annotations

import os

from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INSIDE = "/opt/toolchains"  # toolchains outside of /usr are mounted here in sandboxes
_SHARED = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/")  # the host's folders that sandboxes see
_ON_PATH = ("/opt/env/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Toolchain(Plain):
    """The programs that a language needs, where to look for them, and how to install them."""

    programs: tuple[str, ...]  # all are needed; the first reports the version
    instead: tuple[tuple[str, ...], ...] = ()  # other sets of programs that also work, the best first
    folders: tuple[str, ...] = ()  # searched after PATH; `~`, `$NAME` and `*` are expanded, the highest version wins
    version: tuple[str, ...] = ("--version",)  # arguments that make the first program print its version
    pattern: str = r"(\d+\.\d+(?:\.\d+)*)"  # finds the version in that output
    least: str = ""  # the oldest supported version
    apt: tuple[str, ...] = ()  # Debian packages
    otherwise: str = ""  # how to install it where apt does not have it
    home: Callable[[str], str] | None = None  # first program's path → folder to mount; else bin's parent
    inside: bool = False  # the programs are part of the sandboxes' environment, not of the host
    package: str = ""  # a package of that environment that is needed too; its version counts as the language's


class FoundTools(Plain):
    """A toolchain that this host has."""

    programs: dict[str, str]  # by name: the path inside sandboxes
    on_host: str = ""  # path of the first program on the host
    mount: tuple[str, str] | None = None  # a folder of the host, and its path inside sandboxes
    prepared: str | None = None  # the folder of prepared files inside sandboxes (see preparation.py)

    def __getitem__(self, program: str) -> str:
        return self.programs[program]

    @property
    def first(self) -> str:
        """The path of the first program, whatever its name is."""
        return next(iter(self.programs.values()))

    @property
    def folder(self) -> str:
        """The folder of its programs inside sandboxes."""
        return os.path.dirname(self.first)


def find(name: str, toolchain: Toolchain) -> FoundTools | None:
    """Find the toolchain on this host; None if it is not installed."""
    if toolchain.inside:
        return FoundTools({program: program for program in toolchain.programs})
    for programs in (toolchain.programs, *toolchain.instead):
        found = _find(name, toolchain.replace(programs=programs))
        if found is not None:
            return found
    return None


def _find(name: str, toolchain: Toolchain) -> FoundTools | None:
    for folder in _folders(toolchain):
        if all(os.access(os.path.join(folder, program), os.X_OK) for program in toolchain.programs):
            found = _seen(name, toolchain, folder)
            if found is not None:
                return found
    return _scattered(toolchain)


def _seen(name: str, toolchain: Toolchain, folder: str) -> FoundTools | None:
    """Describe the programs of one folder as sandboxes see them; None if sandboxes cannot see them."""
    first = os.path.join(folder, toolchain.programs[0])
    real = os.path.realpath(first)
    if real.startswith(_SHARED):
        where = folder if folder.startswith(_SHARED) else os.path.dirname(real)
        programs = {program: os.path.join(where, program) for program in toolchain.programs}
        if all(os.path.exists(path) for path in programs.values()):
            return FoundTools(programs, first)
    home = toolchain.home(first) if toolchain.home is not None else os.path.dirname(os.path.dirname(real))
    if not home or home in ("/", os.path.expanduser("~")) or not os.path.isdir(home):
        return None  # a script in somebody's ~/bin: mounting its parent would show more than the toolchain
    if not all(os.path.exists(os.path.join(home, "bin", program)) for program in toolchain.programs):
        return None
    inside = f"{INSIDE}/{name}"
    programs = {program: f"{inside}/bin/{program}" for program in toolchain.programs}
    return FoundTools(programs, os.path.join(home, "bin", toolchain.programs[0]), (home, inside))


def _scattered(toolchain: Toolchain) -> FoundTools | None:
    """Find programs that are spread over several of the folders that sandboxes share with the host."""
    programs = {}
    for program in toolchain.programs:
        path = next((f"{folder}/{program}" for folder in _ON_PATH if os.path.exists(f"{folder}/{program}")), None)
        if path is None:
            return None
        programs[program] = path
    return FoundTools(programs, programs[toolchain.programs[0]])


def _folders(toolchain: Toolchain) -> Iterator[str]:
    """List the folders of PATH, then the usual places.

    The shims of version managers are skipped: they are scripts that need the manager's home folder.
    """
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
    """Make a sort key that puts 1.10 after 1.9."""
    from re import findall

    return [(int(part), "") if part.isdigit() else (-1, part) for part in findall(r"\d+|\D+", path)]


def version(toolchain: Toolchain, found: FoundTools) -> str | None:
    """Ask the first program for its version; None if it does not answer with one."""
    import re
    import subprocess

    try:
        output = subprocess.run(
            [found.on_host or toolchain.programs[0], *toolchain.version],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(toolchain.pattern, output)
    return number.group(1) if number else None


def is_old(toolchain: Toolchain, number: str) -> bool:
    """Is this version older than the oldest supported one?"""
    return bool(toolchain.least) and _natural(number) < _natural(toolchain.least)
