"""What `python3 agent.pyz` does: be an agent on its own standard streams, in a sandbox that somebody else has made.

With the word `text` the streams carry lines of base64 instead of bytes (see text.py).
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, SOCK_STREAM, socketpair

from cloche.walls.portable import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

HOME = "/sandbox"
KERNELS = "/opt/kernels"
FOLDERS = ("code", "data", "output", "temp")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_ENVIRONMENT = {
    "HOME": HOME,
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "XDG_CONFIG_HOME": "/tmp/.config",
    "IPYTHONDIR": "/tmp/.ipython",
    "MPLCONFIGDIR": "/tmp/.config/matplotlib",
    "MPLBACKEND": "agg",
    "CLOCHE": "1",
}
# What a shell leaves behind, and what would have each program want an interpreter of its own.
_DROPPED = ("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_", "PWD", "OLDPWD", "SHLVL", "BASH_", "E2B_")


def main() -> None:
    """Be an agent until nobody speaks to it any more; never returns."""
    archive = sys.path.pop(0)  # programs shall not find it; our own package knows where it lies
    stream = _stream(as_text="text" in sys.argv[1:])
    from cloche.agent.python import BecomeProgram

    # A program leaves all this behind by raising it, and so runs at the bottom of the stack, not on top of ours.
    program: BecomeProgram | None = None
    try:
        _serve(archive, stream)
    except BecomeProgram as child:
        program = child
    if program is not None:
        program.become()
    os._exit(0)


def _stream(as_text: bool) -> tuple[int, int]:
    """The agent's ends of the conversation, which no program will find as its own standard streams."""
    ways = os.dup(0), os.dup(1)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    if not as_text:
        return ways
    ours, theirs = socketpair(AF_UNIX, SOCK_STREAM)
    if os.fork():
        ours.close()
        text.relay(theirs.detach(), *ways)
        os._exit(0)
    theirs.close()
    for fd in ways:
        os.close(fd)
    stream = ours.detach()
    return stream, stream


def _serve(archive: str, stream: tuple[int, int]) -> None:
    from cloche.agent import build_steps, files, folder_watch, libc, processes, sessions
    from cloche.agent.main import Agent
    from cloche.agent.python import note_state, offer_kernels
    from cloche.kernels import entry_points

    _ = build_steps, files, folder_watch, processes  # the agent imports them when there is nothing left to import from
    offer_kernels(entry_points())
    _unpack_kernels(archive)
    note_state()
    os.unlink(archive)
    libc.function("prctl", "lllll")(_SUBREAPER, 1, 0, 0, 0)  # orphans are ours to bury, as if we were pid 1
    os.umask(0o022)
    for name in FOLDERS:
        os.makedirs(f"{HOME}/{name}", exist_ok=True)
    environment = _environment()
    os.environ["LANG"] = environment["LANG"]
    sys.argv[:] = ["python3"]
    agent = Agent(*stream, environment, HOME)
    store = f"{os.path.dirname(archive)}/store"

    def enable_sessions() -> None:
        os.makedirs(store, 0o700)
        sessions.enable(agent, os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        if not _has_ipython():
            agent.start_cell = _without_ipython(agent.start_cell)

    agent.enable_sessions = enable_sessions
    agent.serve()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "_" and not name.startswith(_DROPPED)}
    return {**kept, **_ENVIRONMENT}


def _unpack_kernels(archive: str) -> None:
    """Put the kernels that are programs of their own where they are looked for, unless they are there."""
    from zipfile import ZipFile

    inside = "cloche/kernels/scripts/"
    with ZipFile(archive) as packed:
        for name in packed.namelist():
            place = f"{KERNELS}/{name.removeprefix(inside)}"
            if not name.startswith(inside) or name.endswith("/") or os.path.exists(place):
                continue
            try:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(packed.read(name))
            except OSError:
                return  # not ours to write: those languages have no sessions here, and say so


def _has_ipython() -> bool:
    from importlib.util import find_spec

    return find_spec("IPython") is not None


def _without_ipython(start_cell: Any) -> Any:
    """Tell what is missing, before a kernel dies of it."""

    def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
        how = (request.get("create") or {}).get("how") or {}
        if how.get("fork") == "python":
            raise OSError(38, "its Python has no IPython, which sessions need")
        start_cell(agent, operation, request)

    return start
