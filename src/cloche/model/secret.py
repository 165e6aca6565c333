"""A secret of a network policy: a value that a program can use and never sees."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.network_rules import rules
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_SECRETS = 100
MAX_SECRET, MAX_ALL_SECRETS = 16 << 10, 64 << 10  # characters: of one, and of all of a policy
MAX_STORED_NAME = 200  # characters
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_KINDS_OF_HOSTS = ("name", "below")
_FIELDS = ("value", "hosts", "variable", "stored")


class Secret(Plain):
    """A value that a program can use and never sees: it is sent to these hosts, in place of its placeholder.

    With `variable=False` programs get no placeholder, and only the `headers` of the policy use the value.  On a server,
    `stored` names a value that the server keeps; such a secret has no value of its own.
    """

    value: str
    hosts: tuple[str, ...]
    variable: bool = True
    stored: str = ""

    def __init__(self, value: str, hosts: Iterable[str], variable: bool = True, stored: str = "") -> None:
        if stored and not is_stored_name(stored):
            raise InvalidRun("stored is the name of a secret that the server keeps.")
        if value or not stored:
            check_value(value)
        super().__init__(value, _checked_hosts(hosts), variable is True, stored)

    @classmethod
    def kept(cls, hosts: Iterable[str], variable: bool = True) -> Secret:
        """A secret whose value only its sandbox has: as a server describes it, and as a request to keep it."""
        found = cls("?", hosts, variable)
        Plain.__init__(found, "", found.hosts, found.variable, "")
        return found

    @property
    def is_kept(self) -> bool:
        """Whether its value is known to the sandbox alone."""
        return not self.value and not self.stored

    def with_hosts(self, hosts: Iterable[str]) -> Secret:
        """The same secret for other hosts."""
        return Secret(self.value, hosts, self.variable, self.stored)

    def __repr__(self) -> str:
        shown = "" if self.variable else ", variable=False"
        return f"Secret({self.stored or '…'!r}, hosts={list(self.hosts)}{shown})"

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the value."""
        return {"hosts": list(self.hosts), "variable": self.variable, "stored": self.stored}

    def with_value(self) -> dict[str, Any]:
        """Return everything with the value, if it has one: for the request that carries it, and no record."""
        return {**self.as_dict(), **({"value": self.value} if self.value else {})}


def secrets_of(given: Mapping[str, Any] | None) -> dict[str, Secret]:
    """The secrets that a caller wrote, by the name of the environment variable."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRun("secrets is a mapping of names to secrets.")  # without the value: it may be one
    if given and len(given) > MAX_SECRETS:
        raise InvalidRun(f"A sandbox can have at most {MAX_SECRETS} secrets.")
    found = {_checked_name(name): _secret(name, secret) for name, secret in (given or {}).items()}
    # Every answer of their hosts is searched for dozens of forms of each, at the cost of all sandboxes.
    if sum(len(secret.value) for secret in found.values()) > MAX_ALL_SECRETS:
        raise InvalidRun(f"The secrets of a sandbox can have at most {MAX_ALL_SECRETS} characters together.")
    return found


def new_placeholder(name: str) -> str:
    """What a program holds in place of a secret: nobody can guess it, and no other sandbox has the same."""
    return f"cloche_secret_{name}_{os.urandom(16).hex()}"


def check_value(value: object) -> None:
    """Raise unless this can be the value of a secret."""
    if not isinstance(value, str) or not value or len(value) > MAX_SECRET or not is_header_text(value):
        raise InvalidRun(f"A secret is a text of at most {MAX_SECRET} printable ASCII characters.")


def is_stored_name(name: object) -> bool:
    """Whether this can be the name under which a server keeps a value."""
    return (
        isinstance(name, str)
        and 0 < len(name) <= MAX_STORED_NAME
        and name.isprintable()
        and name == name.strip()
        and not set("{}$").intersection(name)
    )


def is_header_text(value: str) -> bool:
    """Whether the value of a header can have this text."""
    return value.isascii() and value.isprintable()


def _checked_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    found = rules([hosts] if isinstance(hosts, str) else hosts)
    if not found or any(each.kind not in _KINDS_OF_HOSTS for each in found):
        raise InvalidRun("A secret needs the hosts that it is for.", hint='Write hosts=["api.example.org"].')
    return tuple(map(str, found))


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not _LETTERS.issuperset(name) or name[0].isdecimal():
        raise InvalidRun(
            "The name of a secret becomes an environment variable: letters, digits and _ are possible in it."
        )
    return name


def _secret(name: str, secret: Any) -> Secret:
    if isinstance(secret, Secret):
        return secret
    if isinstance(secret, Mapping) and "hosts" in secret and set(secret) <= set(_FIELDS):
        if not secret.get("stored") and "value" not in secret:
            raise InvalidRun(f"The secret {name} needs a value.", hint='Write {"value": "…", "hosts": ["…"]}.')
        return Secret(**{"value": "", **secret})
    raise InvalidRun(f"The secret {name} needs a value and hosts.", hint='Write {"value": "…", "hosts": ["…"]}.')
