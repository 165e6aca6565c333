"""Installs toolchains with apt, reports its progress, and prepares the languages."""

from __future__ import annotations

import os

from cloche import languages
from cloche.errors import Misconfigured
from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cloche.languages.language import Language

    Progress = Callable[[float, str], None]  # receives the share that is done (0 to 1), and a description

_OPTIONS = ("-o", "DPkg::Lock::Timeout=300", "-o", "APT::Status-Fd=1", "-q")
_LAST_LINES = 5  # of apt's output, for the error message


def packages(wanted: Iterable[Language]) -> list[str]:
    """List the Debian packages for some languages, each once."""
    chains = [language.toolchain for language in wanted]
    return list(dict.fromkeys(package for chain in chains if chain is not None for package in chain.apt))


def install(names: Sequence[str], progress: Progress = lambda _, __: None) -> None:
    """Install packages; without permission, the error's hint is the command to run as root."""
    import shutil

    by_hand = f"apt-get install --no-install-recommends {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise Misconfigured("This host has no apt-get.", hint=f"Install what Debian packages as {', '.join(names)}.")
    prefix = _as_root()
    if prefix is None:
        raise Misconfigured("Installing needs root, or sudo without a password.", hint=f"Run as root: {by_hand}")
    wanted = ("install", "-y", "--no-install-recommends", "--", *names)
    failed, _ = _apt(prefix, wanted, progress)
    if failed:  # the package lists are old, or were never fetched
        progress(0.0, "Updating the package lists")
        _apt(prefix, ("update",), lambda _, __: None)
        failed, output = _apt(prefix, wanted, progress)
        if failed:
            raise Misconfigured(f"apt-get could not install the packages: {output}", hint=f"Run as root: {by_hand}")
    languages.forget_tools()


def prepare(wanted: Iterable[Language], say: Callable[[str], None] = lambda _: None) -> list[str]:
    """Prepare the languages whose tools are installed, and remove files that were made for other tools.

    Returns the names of the languages for which it failed.
    """
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    def make(language: Language) -> bool:
        found = languages.tools(language)
        if found is None or language.preparation is None:
            return True
        try:
            if preparation.is_missing(language, found):
                preparation.prepare(language, found, say)
            preparation.remove_outdated(language, found)
        except (OSError, subprocess.SubprocessError, Misconfigured) as problem:
            say(f"{language.title} could not be prepared, so it starts slower: {problem}")
            return False
        return True

    chosen = list(wanted)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
        failed = [language.name for language, done in zip(chosen, several.map(make, chosen), strict=True) if not done]
    languages.forget_tools()
    return failed


def _as_root() -> tuple[str, ...] | None:
    """Return the words to put before a command so that root runs it; None if we may not."""
    import subprocess
    from shutil import which

    if os.geteuid() == 0:
        return ()
    if which("sudo") is None:
        return None
    sudo = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return ("sudo", "-n") if sudo.returncode == 0 else None


def _apt(prefix: tuple[str, ...], words: tuple[str, ...], progress: Progress) -> tuple[bool, str]:
    """Run apt-get; return whether it failed, and the end of its output."""
    import subprocess

    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", *_OPTIONS, *words]
    last: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as apt:
        assert apt.stdout is not None
        for line in apt.stdout:
            status = _status(line)
            if status is not None:
                progress(*status)
            elif line.strip():
                last = [*last[1 - _LAST_LINES :], line.strip()]
    return apt.returncode != 0, " ".join(last)


def _status(line: str) -> tuple[float, str] | None:
    """Parse a line such as `pmstatus:golang-go:40.0:Unpacking golang-go`; fetching counts as the first half."""
    kind, _, rest = line.partition(":")
    if kind not in ("dlstatus", "pmstatus"):
        return None
    _, percent, what = [*rest.split(":", 2), "", ""][:3]
    try:
        done = min(max(float(percent) / 100, 0.0), 1.0)
    except ValueError:
        return None
    return (done / 2 if kind == "dlstatus" else (1 + done) / 2), what.strip()
