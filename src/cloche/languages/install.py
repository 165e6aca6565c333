"""Installing toolchains by Debian's apt, with its progress, and preparing them."""

from __future__ import annotations

import os

from cloche import languages
from cloche.errors import Misconfigured
from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cloche.languages.language import Language

    Progress = Callable[[float, str], None]  # hears how much is done (0 to 1), and what is being done

_OPTIONS = ("-o", "DPkg::Lock::Timeout=300", "-o", "APT::Status-Fd=1", "-q")
_LAST_LINES = 5  # of what apt said, when it failed


def packages(wanted: Iterable[Language]) -> list[str]:
    """Debian's packages for some languages, each once."""
    chains = [language.toolchain for language in wanted]
    return list(dict.fromkeys(package for chain in chains if chain is not None for package in chain.apt))


def install(names: Sequence[str], progress: Progress = lambda _, __: None) -> None:
    """Install packages; where that is not ours to do, the command that does it is the error's hint."""
    import shutil

    by_hand = f"apt-get install --no-install-recommends {' '.join(names)}"
    if shutil.which("apt-get") is None:
        raise Misconfigured("There is no apt-get on this host.", hint=f"Install what Debian calls {', '.join(names)}.")
    prefix = _as_root()
    if prefix is None:
        raise Misconfigured("Installing needs root, or sudo without a password.", hint=f"As root: {by_hand}")
    wanted = ("install", "-y", "--no-install-recommends", "--", *names)
    failed, _ = _apt(prefix, wanted, progress)
    if failed:  # the lists of packages are old, or were never fetched
        progress(0.0, "Fetching the lists of packages")
        _apt(prefix, ("update",), lambda _, __: None)
        failed, said = _apt(prefix, wanted, progress)
        if failed:
            raise Misconfigured(f"apt-get could not install it: {said}", hint=f"As root: {by_hand}")
    languages.look_again()


def prepare(wanted: Iterable[Language], say: Callable[[str], None] = lambda _: None) -> list[str]:
    """Make ahead what makes languages quick, where their tools are here, and remove what was made for other tools.

    Returns the names of those where it failed.
    """
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    def make(language: Language) -> bool:
        found = languages.tools(language)
        if found is None or language.preparation is None:
            return True
        try:
            if preparation.is_wanted(language, found):
                preparation.prepare(language, found, say)
            preparation.clear(language, found)
        except (OSError, subprocess.SubprocessError, Misconfigured) as problem:
            say(f"{language.title} could not be prepared, so it starts slower: {problem}")
            return False
        return True

    chosen = list(wanted)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
        failed = [language.name for language, done in zip(chosen, several.map(make, chosen), strict=True) if not done]
    languages.look_again()
    return failed


def _as_root() -> tuple[str, ...] | None:
    """What to put before a command so that root runs it; None when we may not."""
    import subprocess
    from shutil import which

    if os.geteuid() == 0:
        return ()
    if which("sudo") is None:
        return None
    asked = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return ("sudo", "-n") if asked.returncode == 0 else None


def _apt(prefix: tuple[str, ...], words: tuple[str, ...], progress: Progress) -> tuple[bool, str]:
    """Run apt-get; whether it failed, and the last that it said."""
    import subprocess

    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", *_OPTIONS, *words]
    said: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as apt:
        assert apt.stdout is not None
        for line in apt.stdout:
            status = _status(line)
            if status is not None:
                progress(*status)
            elif line.strip():
                said = [*said[1 - _LAST_LINES :], line.strip()]
    return apt.returncode != 0, " ".join(said)


def _status(line: str) -> tuple[float, str] | None:
    """`pmstatus:golang-go:40.0:Unpacking golang-go`: fetching is the first half of it, the rest the second."""
    kind, _, rest = line.partition(":")
    if kind not in ("dlstatus", "pmstatus"):
        return None
    _, percent, what = [*rest.split(":", 2), "", ""][:3]
    try:
        done = min(max(float(percent) / 100, 0.0), 1.0)
    except ValueError:
        return None
    return (done / 2 if kind == "dlstatus" else (1 + done) / 2), what.strip()
