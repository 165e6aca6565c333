"""The entry point of `python3 agent.pyz`: an agent on its own standard streams, in a sandbox that another service made.

With the argument `text`, the streams carry lines of base64 instead of bytes (see text.py).
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
# Variables that a shell leaves behind, and those that would force every program into a fresh interpreter.
_DROPPED_PREFIXES = ("PYTHON", "LC_", "LD_", "MALLOC_", "GLIBC_", "PWD", "OLDPWD", "SHLVL", "BASH_", "E2B_")


def main() -> None:
    """Serve as an agent until the connection closes; never returns."""
    archive = sys.path.pop(0)  # programs must not find the archive; our own package knows its path
    stream = _stream(as_text="text" in sys.argv[1:])
    from cloche.agent.python import BecomeProgram

    # A program starts by raising this exception, and so runs at the bottom of the stack, not on top of ours.
    program: BecomeProgram | None = None
    try:
        _serve(archive, stream)
    except BecomeProgram as child:
        program = child
    if program is not None:
        program.become()
    os._exit(0)


def _stream(as_text: bool) -> tuple[int, int]:
    """Return the agent's stream; /dev/null replaces it, so that programs do not inherit it."""
    streams = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    if not as_text:
        return streams
    agent_end, relay_end = socketpair(AF_UNIX, SOCK_STREAM)
    if os.fork():
        agent_end.close()
        text.relay(relay_end.detach(), *streams)
        os._exit(0)
    relay_end.close()
    for fd in streams:
        os.close(fd)
    stream = agent_end.detach()
    return stream, stream


def _serve(archive: str, stream: tuple[int, int]) -> None:
    from cloche.agent import build_steps, files, folder_watch, libc, processes, sessions
    from cloche.agent.main import Agent
    from cloche.agent.python import note_state, offer_kernels
    from cloche.kernels import entry_points

    _ = build_steps, files, folder_watch, processes  # loaded now: the agent imports them when the archive is gone
    offer_kernels(entry_points())
    _unpack_kernels(archive)
    note_state()
    os.unlink(archive)
    libc.function("prctl", "lllll")(_SUBREAPER, 1, 0, 0, 0)  # reap orphans, as if we were pid 1
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
        sessions.enable(agent, os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), None)
        if not _has_ipython():
            agent.start_cell = _without_ipython(agent.start_cell)

    agent.enable_sessions = enable_sessions
    agent.serve()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "_" and not name.startswith(_DROPPED_PREFIXES)}
    return {**kept, **_ENVIRONMENT}


def _unpack_kernels(archive: str) -> None:
    """Unpack the kernels that are programs into the folder where they are started, unless they are there."""
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
                return  # not writable: those languages have no sessions here, and report that


def _has_ipython() -> bool:
    from importlib.util import find_spec

    return find_spec("IPython") is not None


def _without_ipython(start_cell: Any) -> Any:
    """Report that IPython is missing, before a kernel fails because of it."""

    def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
        how = (request.get("create") or {}).get("how") or {}
        if how.get("fork") == "python":
            raise OSError(38, "sessions need IPython, which its Python does not have")
        start_cell(agent, operation, request)

    return start
