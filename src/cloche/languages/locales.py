"""Compiles common locales once, because most hosts have none but C: `de_DE.UTF-8` then formats as in Germany.

Where the host lacks the sources or the compiler, these names lead to C.UTF-8, so that programs accept them.
"""

from __future__ import annotations

import os
import subprocess

from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = "locales"  # walls/jail/root.py has its path inside sandboxes
# Each takes two seconds to compile.
_NAMES = ("en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "pt_BR", "ru_RU", "ja_JP", "zh_CN")
_SOURCES = "/usr/share/i18n/locales"
_PLAIN = "/usr/lib/locale/C.utf8"
_TIMEOUT_S = 120


def prepare(say: Callable[[str], None] = lambda _: None) -> None:
    """Make the folder of locales, unless it is there; a second process that wants it waits for the first."""
    from fcntl import LOCK_EX, flock

    preparation.mount()
    folder = os.path.join(preparation.location(), _FOLDER)
    try:
        with open(f"{folder}.lock", "w") as lock:
            flock(lock, LOCK_EX)
            if os.path.isdir(folder):
                return
            say("Preparing locales, such as de_DE.UTF-8 (15 MB)")
            _make(folder)
    except OSError as problem:
        say(f"Locales could not be prepared, so programs have those of the host only: {problem}")


def _make(folder: str) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from shutil import rmtree, which

    compiler = which("localedef") if os.path.isdir(_SOURCES) else None
    draft = f"{folder}.new"
    rmtree(draft, ignore_errors=True)
    os.makedirs(draft)
    os.chmod(draft, 0o755)  # sandboxes run as other users
    try:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as several:
            list(several.map(lambda name: _compile(compiler, name, f"{draft}/{name}.utf8"), _names()))
        os.rename(draft, folder)
    except BaseException:
        rmtree(draft, ignore_errors=True)
        raise


def _names() -> list[str]:
    """The usual names, and those that the host has: where this folder is used, programs do not find the host's."""
    try:
        done = subprocess.run(["locale", "-a"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return list(_NAMES)
    host = [name.partition(".")[0] for name in done.stdout.split() if name.endswith(".utf8") and name != "C.utf8"]
    return list(dict.fromkeys((*_NAMES, *host)))


def _compile(compiler: str | None, name: str, target: str) -> None:
    if compiler is not None:
        words = [compiler, "--no-archive", "-i", name, "-f", "UTF-8", target]
        try:  # warnings make it fail as well, so only the result tells
            subprocess.run(words, capture_output=True, timeout=_TIMEOUT_S, umask=0o022, check=False)
        except (OSError, subprocess.SubprocessError):
            pass
    if not os.path.isdir(target):
        os.symlink(_PLAIN, target)
