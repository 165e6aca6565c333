"""Starts a Python kernel in a fresh interpreter, for sandboxes with another version of a library that is loaded here.

Cloche's code cannot be found inside a sandbox.  So the nursery keeps the modules that a kernel needs, as bytes, and the
agent sends them to the new interpreter through the kernel's control, before the order.
"""

from __future__ import annotations

import site
import sys

from cloche.agent import signals
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.agent.messages import KernelOptions

CONTROL = 3
BLOCKED = (signals.SIGINT,)  # until the kernel can ignore it: an interrupt would end Python's own start
# No code of the sandbox's packages may run before the kernel's loop is sealed.  Nobody can make this folder: /opt is
# read-only.  kernels/fresh_python.py puts the real folder back.
_NO_PACKAGES = {"PYTHONUSERBASE": "/opt/none"}
# The first entry of the path would be the current folder, in which a file could take the place of a module.
_PROGRAM = f"""\
import sys
del sys.path[0]
import marshal
from _socket import AF_UNIX, MSG_WAITALL, SOCK_STREAM, socket
control = socket(AF_UNIX, SOCK_STREAM, 0, {CONTROL})
size = int.from_bytes(control.recv(4, MSG_WAITALL), "big")
names = {{"__name__": "cloche.kernels.fresh_python"}}
exec(marshal.loads(control.recv(size, MSG_WAITALL)), names)
names["become_kernel"](control)
"""

_kept: list[tuple[bytes, bytes]] = []  # the code that starts a kernel, and the modules that it imports


def keep(start: bytes, modules: bytes) -> None:
    """Keep what a fresh kernel needs; the nursery calls this before it imports libraries."""
    _kept[:] = [(start, modules)]


def are_possible() -> bool:
    """Say whether a kernel can start in a fresh interpreter here."""
    return bool(_kept)


def command() -> list[str]:
    """Return the command that starts the interpreter."""
    return [sys.executable, "-c", _PROGRAM]


def environment(usual: dict[str, str]) -> dict[str, str]:
    """Return the variables for the start; the kernel sets those of its context later, as a forked one does."""
    return {**usual, **_NO_PACKAGES}


def messages(order: KernelOptions) -> bytes:
    """Return everything that the interpreter reads before the first frame."""
    place = {"argv": sys.orig_argv, "user_base": site.getuserbase(), "user_site": site.getusersitepackages()}
    parts = *_kept[0], dumps({**order, "place": place}).encode()
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
