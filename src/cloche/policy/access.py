"""Decides whether a caller's key is good enough for what a route declares.

The functions here know neither HTTP nor routes: a door passes in the caller that it has found and the scope that its
route declares, and translates a refusal into its own protocol.
"""

from __future__ import annotations

from cloche.policy.caller import Caller
from cloche.policy.refusals import Forbidden, Unauthorized


def check_access(caller: Caller | None, scope: str) -> Caller:
    """Return the caller if its key has the scope (`read`, `run` or `admin`); raise the refusal otherwise."""
    if caller is None:
        raise Unauthorized(
            "This request needs an API key.",
            "Send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `cloche key` prints the server's own.",
        )
    if not caller.may(scope):
        raise Forbidden(
            f"This key lacks the scope `{scope}`, which this request needs.",
            "Use a key that has it; an admin creates keys with POST /v1/keys.",
        )
    return caller
