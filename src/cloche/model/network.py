"""A sandbox's access to the network: a policy, as its caller writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.limits import size
from cloche.model.network_rules import Rule, rule, rules
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RULES = 1000
MAX_SECRETS = 100
MAX_SECRET = 16 << 10  # characters
CONNECTIONS, MAX_CONNECTIONS = 256, 4096  # at once: by default, and at most
PORTS = 64  # different ports that a policy may name
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_LEAST_RATE = 1 << 10
_MOST = 1 << 50
_HOSTS_OF_SECRETS = ("name", "below")


class Secret(Plain):
    """A value that a program can use and never sees: it is sent to these hosts, in place of its placeholder."""

    value: str
    hosts: tuple[str, ...]

    def __init__(self, value: str, hosts: Iterable[str]) -> None:
        if not isinstance(value, str) or not value or len(value) > MAX_SECRET or not _is_header_text(value):
            raise InvalidRun(f"A secret is a text of at most {MAX_SECRET} printable ASCII characters.")
        found = rules([hosts] if isinstance(hosts, str) else hosts)
        if not found or any(each.kind not in _HOSTS_OF_SECRETS for each in found):
            raise InvalidRun("A secret needs the hosts that it is for.", hint='Write hosts=["api.example.org"].')
        super().__init__(value, tuple(map(str, found)))

    @classmethod
    def kept(cls, hosts: Iterable[str]) -> Secret:
        """A secret whose value only its sandbox has: as a server describes it, and as a request to keep it."""
        found = cls("?", hosts)
        Plain.__init__(found, "", found.hosts)
        return found

    @property
    def is_kept(self) -> bool:
        """Whether its value is known to the sandbox alone."""
        return not self.value

    def __repr__(self) -> str:
        return f"Secret('…', hosts={list(self.hosts)})"

    def as_dict(self) -> dict[str, Any]:
        """Return the hosts; never the value."""
        return {"hosts": list(self.hosts)}


class Network(Plain):
    """What a sandbox may reach.

    `allow` and `deny` are lists of names, `*.names`, `name:port`, ranges of public addresses, and the presets `public`
    and `packages`; a rule in `deny` always wins.  `rate` bounds bytes per second, `bytes` all bytes together, both
    directions counted, and `connections` those that are open at once.  With `dns="real"`, programs get the true
    addresses of allowed names instead of stand-ins.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    rate: int | None = None
    bytes: int | None = None
    connections: int = CONNECTIONS
    secrets: Mapping[str, Secret] = {}
    dns: str = "fake"

    def __init__(
        self,
        allow: str | Iterable[str] = (),
        deny: str | Iterable[str] = (),
        rate: int | str | None = None,
        bytes: int | str | None = None,
        connections: int = CONNECTIONS,
        secrets: Mapping[str, Any] | None = None,
        dns: str = "fake",
    ) -> None:
        if dns not in ("fake", "real"):
            raise InvalidRun(f"dns={dns!r:.100} is not known.", hint='Say "fake" or "real".')
        if type(connections) is not int or not 1 <= connections <= MAX_CONNECTIONS:
            raise InvalidRun(f"connections must be a number from 1 to {MAX_CONNECTIONS}, not {connections!r:.100}.")
        allowed = _rules("allow", allow)
        if len({port for each in allowed for port in each.ports()}) > PORTS:
            raise InvalidRun(f"A network policy can name at most {PORTS} different ports.")
        super().__init__(
            allow=tuple(map(str, allowed)),
            deny=tuple(map(str, _rules("deny", deny))),
            rate=_amount("rate", rate, _LEAST_RATE),
            bytes=_amount("bytes", bytes, 0),
            connections=connections,
            secrets=_secrets(secrets),
            dns=dns,
        )

    @property
    def is_none(self) -> bool:
        """Whether it allows nothing."""
        return not self.allow

    def allowed(self) -> tuple[Rule, ...]:
        """The rules of `allow`."""
        return tuple(map(rule, self.allow))

    def denied(self) -> tuple[Rule, ...]:
        """The rules of `deny`."""
        return tuple(map(rule, self.deny))

    def as_dict(self) -> dict[str, Any]:
        """Return the policy as JSON, without the values of its secrets."""
        secrets = {name: secret.as_dict() for name, secret in self.secrets.items()}
        return {**self._plain(), "secrets": secrets}

    def with_values(self) -> dict[str, Any]:
        """Return the policy as JSON with the values of its secrets: for the request that carries it, and no record."""
        secrets = {
            name: each.as_dict() if each.is_kept else {"value": each.value, **each.as_dict()}
            for name, each in self.secrets.items()
        }
        return {**self._plain(), "secrets": secrets}

    def _plain(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self._fields}
        return {**fields, "allow": list(self.allow), "deny": list(self.deny)}


class NetworkPolicy(Plain):
    """A sandbox's policy as it was requested, the bound on it, and the policy that is in force."""

    requested: Network
    bound: Network
    effective: Network


def network_of(value: str | Iterable[str] | Mapping[str, Any] | Network | None) -> Network:
    """The policy that a caller wrote: a preset, a list of rules, an object with the fields of Network, or None."""
    if isinstance(value, Network):
        return value
    if value is None or value == "none":
        return Network()
    if isinstance(value, str):
        return Network(allow=[value])
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in Network._fields]
        if unknown:
            hint = f"There are {', '.join(Network._fields)}."
            raise InvalidRun(f"A network policy has no field {unknown[0]!r:.100}.", hint=hint)
        return Network(**{name: given for name, given in value.items() if given is not None})
    if isinstance(value, list | tuple):
        return Network(allow=value)
    raise InvalidRun(
        f"network is a preset, a list of rules or a Network, not {value!r:.100}.",
        hint='Write network="public", or network=["api.example.org"].',
    )


def _rules(what: str, given: str | Iterable[str]) -> tuple[Rule, ...]:
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise InvalidRun(f"{what} is a list of network rules, not {given!r:.100}.")
    if len(texts) > MAX_RULES:
        raise InvalidRun(f"{what} has {len(texts)} rules, and can have at most {MAX_RULES}.")
    if "none" in texts:
        raise InvalidRun('"none" is not a rule.', hint="Leave the list empty to allow nothing.")
    return rules(texts)


def _amount(name: str, value: int | str | None, least: int) -> int | None:
    if value is None:
        return None
    amount = size(name, value)
    if not least <= amount <= _MOST:
        raise InvalidRun(f"{name} must be between {least} and {_MOST} bytes, not {amount}.")
    return amount


def _secrets(given: Mapping[str, Any] | None) -> dict[str, Secret]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRun("secrets is a mapping of names to secrets.")  # without the value: it may be one
    if given and len(given) > MAX_SECRETS:
        raise InvalidRun(f"A sandbox can have at most {MAX_SECRETS} secrets.")
    return {_secret_name(name): _secret(name, secret) for name, secret in (given or {}).items()}


def _secret_name(name: Any) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 100 or not _LETTERS.issuperset(name) or name[0].isdecimal():
        raise InvalidRun(
            "The name of a secret becomes an environment variable: letters, digits and _ are possible in it."
        )
    return name


def _secret(name: str, secret: Any) -> Secret:
    if isinstance(secret, Secret):
        return secret
    if isinstance(secret, Mapping) and set(secret) == {"value", "hosts"}:
        return Secret(secret["value"], secret["hosts"])
    raise InvalidRun(f"The secret {name} needs a value and hosts.", hint='Write {"value": "…", "hosts": ["…"]}.')


def _is_header_text(value: str) -> bool:
    return value.isascii() and value.isprintable()
