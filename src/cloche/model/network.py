"""A sandbox's access to the network: a policy, as its caller writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.limits import size
from cloche.model.network_rules import Rule, rule, rules
from cloche.model.plain import Plain
from cloche.model.secret import Secret, secrets_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RULES = 1000
CONNECTIONS, MAX_CONNECTIONS = 256, 4096  # at once: by default, and at most
PORTS = 64  # different ports that a policy may name
_LEAST_RATE = 1 << 10
_MOST = 1 << 50


class Network(Plain):
    """What a sandbox may reach.

    `allow` and `deny` are lists of names, `*.names`, `name:port`, ranges of public addresses, and the presets `public`
    and `packages`; a rule in `deny` always wins.  `rate` bounds bytes per second, `bytes` all bytes together, both
    directions counted, and `connections` those that are open at once.  `headers` are set in requests to hosts, and may
    use the secrets: `{"api.example.org": {"Authorization": "Bearer ${TOKEN}"}}`.  With `dns="real"`, programs get the
    true addresses of allowed names instead of stand-ins.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    rate: int | None = None
    bytes: int | None = None
    connections: int = CONNECTIONS
    secrets: Mapping[str, Secret] = {}
    headers: Mapping[str, Mapping[str, str]] = {}
    dns: str = "fake"

    def __init__(
        self,
        allow: str | Iterable[str] = (),
        deny: str | Iterable[str] = (),
        rate: int | str | None = None,
        bytes: int | str | None = None,
        connections: int = CONNECTIONS,
        secrets: Mapping[str, Any] | None = None,
        headers: Mapping[str, Mapping[str, str]] | None = None,
        dns: str = "fake",
    ) -> None:
        if dns not in ("fake", "real"):
            raise InvalidRun(f"dns={dns!r:.100} is not known.", hint='Say "fake" or "real".')
        if type(connections) is not int or not 1 <= connections <= MAX_CONNECTIONS:
            raise InvalidRun(f"connections must be a number from 1 to {MAX_CONNECTIONS}, not {connections!r:.100}.")
        allowed = _rules("allow", allow)
        if len({port for each in allowed for port in each.ports()}) > PORTS:
            raise InvalidRun(f"A network policy can name at most {PORTS} different ports.")
        known = secrets_of(secrets)
        super().__init__(
            allow=tuple(map(str, allowed)),
            deny=tuple(map(str, _rules("deny", deny))),
            rate=_amount("rate", rate, _LEAST_RATE),
            bytes=_amount("bytes", bytes, 0),
            connections=connections,
            secrets=known,
            headers=_headers(headers, known),
            dns=dns,
        )

    @property
    def is_none(self) -> bool:
        """Whether it allows nothing."""
        return not self.allow

    @property
    def changes_requests(self) -> bool:
        """Whether something is put into requests on their way, so that TLS ends at Cloche for some hosts."""
        return bool(self.secrets or self.headers)

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
        return {**self._plain(), "secrets": {name: each.with_value() for name, each in self.secrets.items()}}

    def _plain(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self._fields}
        headers = {host: dict(each) for host, each in self.headers.items()}
        return {**fields, "allow": list(self.allow), "deny": list(self.deny), "headers": headers}


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


def _headers(given: Mapping[str, Any] | None, secrets: Mapping[str, Secret]) -> dict[str, dict[str, str]]:
    if not given:
        return {}
    from cloche.model.network_headers import headers_of

    return headers_of(given, secrets)
