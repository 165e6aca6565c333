"""Explains failures of programs whose connections the network policy has refused."""

from __future__ import annotations

from cloche.model.result import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloche.model.network_attempt import NetworkAttempt

_KINDS = ("runtime", "exit")  # other failures have another reason
# Words of messages about connections.  A program may have handled a refusal and failed for another reason later.
_WORDS = (
    *("connect", "network", "refused", "reset", "socket", "ssl", "tls", "http", "certificate", "handshake", "proxy"),
    *("resolve", "lookup", "unreachable", "timed out", "timeout", "fetch", "url", "denied", "forbidden", "403", "eof"),
    "no matching distribution",  # pip -q
)
_AT_THE_END = 4000  # characters
_HINT = "Its output says more."


def explained(error: Error, attempts: Sequence[NetworkAttempt], stderr: str) -> Error:
    """Return the error with the refused connection as its reason, if that is likely."""
    refused = [each for each in attempts if each.verdict == "refused"]
    if not refused or error.kind not in _KINDS:
        return _without_network_advice(error)
    said = f"{stderr[-_AT_THE_END:]}\n{error.traceback or ''}\n{error.message}".lower()
    last = refused[-1]
    is_silent = error.kind == "exit" and not stderr.strip()  # such as wget -q, and npm --silent
    if not is_silent and last.host.lower() not in said and not any(word in said for word in _WORDS):
        return _without_network_advice(error)
    host = last.host if last.port in (80, 443) else f"{last.host}:{last.port}"
    return error.replace(
        kind="network",
        message=f"The sandbox may not connect to {last.host} on port {last.port}: {last.reason}.",
        hint=f'Allow the host, if the program should reach it: network=["{host}"].',
    )


def _without_network_advice(error: Error) -> Error:
    """Without the advice for sandboxes that have no network: programs of this one have just used it."""
    from cloche.engine import no_network

    return error.replace(hint=_HINT) if (error.hint or "").startswith(no_network.NONE) else error
