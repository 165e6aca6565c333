"""The settings of the engine, each with its default and its reason.  Only this module and configuration.py, which has
the server's settings, read the environment."""

from __future__ import annotations

import os

from cloche.errors import Misconfigured
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Settings(Plain):
    """How Cloche runs on this host; a field's text begins with its environment variable."""

    environment: str | None = None
    """CLOCHE_ENVIRONMENT: folder of the Python environment inside sandboxes; by default the one that `cloche setup`
    built."""

    pool: int = 2
    """CLOCHE_POOL: sandboxes that each nursery keeps ready.  Two hide the time that it takes to make one; more cost
    memory.  With 0, no sandbox is claimed ahead of time either, and no interpreter is started ahead."""

    warm: bool = True
    """CLOCHE_WARM: keep further nurseries, one with pandas and the like and one for sessions, once they are needed."""

    url: str | None = None
    """CLOCHE_URL: address of a Cloche server.  Sandboxes are made there instead of on this host, unless the caller
    names another server."""

    api_key: str | None = None
    """CLOCHE_API_KEY: the key for that server."""

    e2b_api_key: str | None = None
    """CLOCHE_E2B_API_KEY: the key for the service behind isolation="e2b"; else E2B's client reads E2B_API_KEY."""

    e2b_api_url: str | None = None
    """CLOCHE_E2B_API_URL: address of that service; without it, the client reads E2B_API_URL or E2B_DOMAIN, and
    otherwise uses E2B itself."""

    e2b_sandbox_url: str | None = None
    """CLOCHE_E2B_SANDBOX_URL: address of its sandboxes, if it is not e2b_api_url."""

    e2b_template: str | None = None
    """CLOCHE_E2B_TEMPLATE: the template of its sandboxes; it needs Python 3.11 or newer, and IPython for sessions."""

    network_private: tuple[str, ...] = ()
    """CLOCHE_NETWORK_PRIVATE: ranges of private addresses that network policies may reach: `10.20.0.0/16,fd00:20::/32`.
    All others stay closed."""

    network_hosts: tuple[tuple[str, str], ...] = ()
    """CLOCHE_NETWORK_HOSTS: names for network policies that Cloche resolves itself: `db.internal=10.20.0.5,…`."""

    packages: str = ""
    """CLOCHE_PACKAGES: the policy for packages, a TOML or JSON file, or `none`, which allows no installs.  By default,
    every name is allowed, with the bounds that docs/packages.md lists."""

    environments: int = 4
    """CLOCHE_ENVIRONMENTS: environments of your own that are kept warm at a time, each in a nursery that takes memory;
    the one that was first used goes when there is another."""

    environments_idle: int = 600
    """CLOCHE_ENVIRONMENTS_IDLE: seconds after which an environment of your own that nobody uses is no longer kept
    warm; the next sandbox starts it again."""

    packages_folder: str | None = None
    """CLOCHE_PACKAGES_FOLDER: where layers of packages and downloads are kept; by default below the user's data."""

    one_run: bool = False
    """Not from the environment: true for `cloche run`, which makes one run and keeps nothing ready for another."""

    debug: bool = False
    """CLOCHE_DEBUG: let the launcher and the nursery write messages to standard error."""


def load(one_run: bool = False) -> Settings:
    """Read the settings of this process; with `one_run`, it keeps nothing ready for a second run."""
    return Settings(
        environment=environment(),
        pool=0 if one_run else _number("CLOCHE_POOL", 2, 0, 64),
        warm=False if one_run else _flag("CLOCHE_WARM", True),
        url=server(),
        api_key=os.environ.get("CLOCHE_API_KEY") or None,
        e2b_api_key=os.environ.get("CLOCHE_E2B_API_KEY") or None,
        e2b_api_url=os.environ.get("CLOCHE_E2B_API_URL") or None,
        e2b_sandbox_url=os.environ.get("CLOCHE_E2B_SANDBOX_URL") or None,
        e2b_template=os.environ.get("CLOCHE_E2B_TEMPLATE") or None,
        network_private=_ranges("CLOCHE_NETWORK_PRIVATE"),
        network_hosts=_hosts("CLOCHE_NETWORK_HOSTS"),
        packages=os.environ.get("CLOCHE_PACKAGES", ""),
        environments=_number("CLOCHE_ENVIRONMENTS", 4, 1, 64),
        environments_idle=_number("CLOCHE_ENVIRONMENTS_IDLE", 600, 1, 86_400),
        packages_folder=os.environ.get("CLOCHE_PACKAGES_FOLDER") or None,
        one_run=one_run,
        debug=_flag("CLOCHE_DEBUG", False),
    )


def server() -> str | None:
    """The setting `url` alone: reading the others takes longer."""
    return os.environ.get("CLOCHE_URL") or None


def environment() -> str | None:
    """The setting `environment` alone."""
    return os.environ.get("CLOCHE_ENVIRONMENT") or None


def packages_policy(text: str) -> dict[str, Any]:
    """What the setting `packages` leads to: the content of its file, or a policy that allows nothing."""
    if text == "none":
        return {"allow": "none"}
    import json
    import tomllib

    try:
        with open(text, encoding="utf-8") as file:
            content = file.read()
        found: dict[str, Any] = json.loads(content) if content.lstrip().startswith("{") else tomllib.loads(content)
        return found
    except (OSError, ValueError) as problem:
        raise Misconfigured(f"CLOCHE_PACKAGES={text!r} cannot be read: {problem}.") from None


def variable(name: str) -> str:
    """A variable that a caller names, for the value of a secret; empty if there is none."""
    return os.environ.get(name, "")


def data_home() -> str:
    """The folder for the data of this user's programs."""
    given = os.environ.get("XDG_DATA_HOME", "")
    return given if given.startswith("/") else os.path.expanduser("~/.local/share")


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


def _ranges(name: str) -> tuple[str, ...]:
    text = os.environ.get(name, "")
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if found:
        from ipaddress import ip_network

        for part in found:
            try:
                ip_network(part, strict=False)
            except ValueError:
                raise Misconfigured(f"{name}: {part!r} is not a range of addresses such as 10.20.0.0/16.") from None
    return found


def _hosts(name: str) -> tuple[tuple[str, str], ...]:
    text = os.environ.get(name, "")
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if pairs:
        from ipaddress import ip_address

        for host, _, address in pairs:
            try:
                ip_address(address.strip())
            except ValueError:
                part = f"{host}={address}"
                raise Misconfigured(f"{name}: {part!r} is not a name and an address: db.internal=10.20.0.5.") from None
    return tuple((host.strip().lower(), address.strip()) for host, _, address in pairs)
