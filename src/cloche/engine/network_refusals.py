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
_NO_ANSWER = (
    "Check the name and the port of the host: nothing answers there, or no rule of the network policy covers the port."
)
_OPERATOR = "Only the operator of Cloche can open this address."


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
    return error.replace(
        kind="network",
        message=f"The sandbox may not connect to {last.host} on port {last.port}: {last.reason}.",
        hint=_hint(last),
    )


def _hint(refused: NetworkAttempt) -> str:
    if refused.allow:
        return f'Allow the host, if the program should reach it: network=["{refused.allow}"].'
    if refused.rule.startswith("deny "):
        return (
            f"Remove the rule {refused.rule.removeprefix('deny ')} from `deny`, if the program should reach the host."
        )
    return _OPERATOR if " is closed" in refused.reason else _HINT


def _without_network_advice(error: Error) -> Error:
    """Without the advice for sandboxes that have no network: programs of this one have just used it."""
    from cloche.engine import no_network

    return error.replace(hint=_NO_ANSWER) if (error.hint or "").startswith(no_network.NONE) else error
