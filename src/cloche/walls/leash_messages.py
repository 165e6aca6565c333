"""The messages on a leash, and how a warden reads and sends them.

The engine holds every sandbox by two sockets.  The *stream* leads to the sandbox's agent and is untrusted.  The *leash*
leads to the sandbox's *warden*, the part of a wall that made the sandbox and can kill it: a nursery for the jail, the
carrier for e2b.  A leash is trusted, and both ends are the same Python, so `marshal` will do, which costs no import.
Each message is one dictionary; its first key is its name.

    the engine asks                  the warden answers
    {"usage": True}                  {"usage": USAGE}
    {"lifetime_s": seconds or None}  nothing; it ends the sandbox after so many seconds, counted from now
    {"pause": True or False}         {"paused": True or False}, or {"refused": REASON, "hint": HINT}
    {"listen": PORTS}                nothing here: the request carries a socket, and the warden answers on that socket
                                     {"listeners": [[KIND, PORT] …], "taken": PORTS} with the listening sockets, or
                                     {"failed": REASON}; a warden that cannot do it closes that socket
    {"layer": True}                  nothing here: the request carries a socket in which a layer's path, identity and
                                     slot wait; the warden answers on it {"mounted": True} or {"failed": REASON}, or
                                     closes it
    {"end": True}                    {"ended": {"reason": "", **USAGE}}, and {"gone": True} when nothing is left
    the leash is closed              the same as {"end": True}, although nobody listens any more

    the warden says by itself
    {"ready": True}                  the agent has been started; only from a wall whose `hold` waits for that
    {"failed": REASON, "hint": HINT} the sandbox could not be built; nothing follows
    {"ended": {"reason": …}}         the sandbox has ended: "memory", "timeout", "closed", or "" when it died by itself
    {"gone": True}                   nothing of the sandbox is left

USAGE has any of memory, memory_peak, memory_least (bytes), cpu_s, cpu_estimate_s, processes, processes_peak, oom_kills
and processes_refused; the
warden leaves out the values that it does not know.
"""

from __future__ import annotations

import marshal
from _socket import MSG_DONTWAIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Sender(Protocol):
        """A socket of either class, `_socket.socket` or `socket.socket`."""

        def send(self, data: bytes, flags: int, /) -> int:
            """Send a message."""


MAX_MESSAGE = 64 << 10  # bytes


def encode(**message: Any) -> bytes:
    """A message as it travels."""
    return marshal.dumps(message)


def decode(data: bytes) -> dict[str, Any]:
    """A message that was received; a leash that is closed, which reads as no data, means `end`."""
    if not data:
        return {"end": True}
    message: dict[str, Any] = marshal.loads(data)
    return message


def tell(leash: Sender, **message: Any) -> None:
    """Send a message to the engine, which may be gone, or too busy to read: a warden waits for nobody."""
    try:
        leash.send(marshal.dumps(message), MSG_DONTWAIT)
    except OSError:
        pass
