"""Every knob, with its default and its reason.  The environment is read here, once, and nowhere else."""

from __future__ import annotations

import os

from cloche.errors import Misconfigured
from cloche.model.plain import Plain


class Settings(Plain):
    """How Cloche runs on this host."""

    environment: str | None = None
    """CLOCHE_ENVIRONMENT: folder of the sandboxes' Python environment; by default the one that `make install` built."""

    pool: int = 2
    """CLOCHE_POOL: sandboxes kept ready per nursery.  Two hide the time that making one takes; more cost memory.
    0 also keeps none that has been claimed, or in which an interpreter has been started, ahead."""

    warm: bool = True
    """CLOCHE_WARM: keep further nurseries, with pandas and the like or a shell for sessions, once they are wanted."""

    url: str | None = None
    """CLOCHE_URL: address of a server whose sandboxes are used, instead of this host's, where the caller names none."""

    api_key: str | None = None
    """CLOCHE_API_KEY: the key for that server."""

    e2b_api_key: str | None = None
    """CLOCHE_E2B_API_KEY: the key for the service behind isolation="e2b"; else E2B's client reads E2B_API_KEY."""

    e2b_api_url: str | None = None
    """CLOCHE_E2B_API_URL: address of that service; else the client reads E2B_API_URL or E2B_DOMAIN, or it is E2B."""

    e2b_sandbox_url: str | None = None
    """CLOCHE_E2B_SANDBOX_URL: address of its sandboxes, where that is another than e2b_api_url."""

    e2b_template: str | None = None
    """CLOCHE_E2B_TEMPLATE: what its sandboxes are made from; needs Python 3.11 or newer, and IPython for sessions."""

    one_run: bool = False
    """Not from the environment: `cloche run` makes a single run, so nothing is imported or kept ready for the next."""

    debug: bool = False
    """CLOCHE_DEBUG: let the launcher and the nursery write to standard error."""


def load(one_run: bool = False) -> Settings:
    """The settings of this process; one that makes a single run keeps nothing ready for the next."""
    return Settings(
        environment=os.environ.get("CLOCHE_ENVIRONMENT") or None,
        pool=0 if one_run else _number("CLOCHE_POOL", 2, 0, 64),
        warm=False if one_run else _flag("CLOCHE_WARM", True),
        url=server(),
        api_key=os.environ.get("CLOCHE_API_KEY") or None,
        e2b_api_key=os.environ.get("CLOCHE_E2B_API_KEY") or None,
        e2b_api_url=os.environ.get("CLOCHE_E2B_API_URL") or None,
        e2b_sandbox_url=os.environ.get("CLOCHE_E2B_SANDBOX_URL") or None,
        e2b_template=os.environ.get("CLOCHE_E2B_TEMPLATE") or None,
        one_run=one_run,
        debug=_flag("CLOCHE_DEBUG", False),
    )


def server() -> str | None:
    """The address in `url`, without a look at all the rest."""
    return os.environ.get("CLOCHE_URL") or None


def _number(name: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not low <= int(text) <= high:
        raise Misconfigured(f"{name}={text!r} is not a whole number from {low} to {high}.")
    return int(text)


def _flag(name: str, default: bool) -> bool:
    text = os.environ.get(name, "").lower()
    if text in ("", "1", "0", "true", "false", "yes", "no", "on", "off"):
        return default if not text else text in ("1", "true", "yes", "on")
    raise Misconfigured(f"{name}={text!r} is neither yes nor no.")
