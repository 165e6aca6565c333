"""Network policies and attempts in bodies and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from cloche.errors import InvalidRun
from cloche.model.network import CONNECTIONS, MAX_CONNECTIONS, Network, network_of
from cloche.model.secret import Secret


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class SecretBody(_Body):
    """A value that programs use and never see.  It is sent to its hosts only, in place of the placeholder."""

    value: str | None = Field(None, description="left out: the sandbox keeps the value that it has")
    hosts: list[str] = Field(description="names, such as `api.example.org` or `*.example.org`")
    variable: bool = Field(True, description="false: programs have no placeholder, only `headers` use the value")
    stored: str = Field("", description="in place of a value: the name of a secret that the server stores")

    def secret(self) -> Secret:
        if self.stored and self.value:
            raise InvalidRun("A stored secret has no value of its own.", hint="Send `stored` or `value`, not both.")
        if self.value is None and not self.stored:
            return Secret.kept(self.hosts, self.variable)
        return Secret(self.value or "", self.hosts, self.variable, self.stored)


class NetworkBody(_Body):
    """What a sandbox may reach."""

    allow: list[str] = Field([], description="names, `*.names`, `name:port`, address ranges, `public`, `packages`")
    deny: list[str] = Field([], description="the same; these rules win")
    rate: int | str | None = Field(None, description="bytes per second, or a text like 1M")
    bytes: int | str | None = Field(None, description="bytes in total, in both directions together")
    connections: int = Field(CONNECTIONS, ge=1, le=MAX_CONNECTIONS, description="connections that are open at once")
    secrets: dict[str, SecretBody] = Field(
        {}, description="by the name of the environment variable that has the placeholder"
    )
    headers: dict[str, dict[str, str]] = Field(
        {}, description="headers to set in requests, by host; `${NAME}` in one stands for the value of a secret"
    )
    dns: Literal["fake", "real"] = Field("fake", description="`real`: programs see the true addresses of allowed names")

    def network(self) -> Network:
        """Return the policy."""
        secrets = {name: each.secret() for name, each in self.secrets.items()}
        fields = {name: getattr(self, name) for name in NetworkBody.model_fields}
        return Network(**{**fields, "secrets": secrets})


def _form(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    return {str: "preset", list: "rules", type(None): "nothing"}.get(type(value), "policy")


NetworkField = Annotated[
    Annotated[bool, Tag("flag")]
    | Annotated[str, Tag("preset")]
    | Annotated[list[str], Tag("rules")]
    | Annotated[NetworkBody, Tag("policy")]
    | Annotated[None, Tag("nothing")],
    Discriminator(_form),
    Field(
        description="what the sandbox may reach: `none`, `packages`, `public`, a list of rules, or a policy; the "
        "operator and the key bound it"
    ),
]


def network_in(value: bool | str | list[str] | NetworkBody | None) -> Network | None:
    """Return the policy of a request; None if the request says nothing about it."""
    if value is None:
        return None
    if value is True:
        raise InvalidRun(
            "network=true does not say what to reach.", hint='Send "public", "packages" or a list of hosts.'
        )
    return value.network() if isinstance(value, NetworkBody) else network_of(value or None)


class SecretAnswer(BaseModel):
    """A secret, without its value."""

    hosts: list[str]
    variable: bool
    stored: str


class NetworkSettingsAnswer(BaseModel):
    """What a sandbox may reach."""

    allow: list[str]
    deny: list[str]
    rate: int | None
    bytes: int | None
    connections: int
    secrets: dict[str, SecretAnswer]
    headers: dict[str, dict[str, str]]
    dns: Literal["fake", "real"]


class NetworkPolicyAnswer(BaseModel):
    """A sandbox's access to the network: as it was requested, what the caller may ask for, and what is in force."""

    requested: NetworkSettingsAnswer
    bound: NetworkSettingsAnswer
    effective: NetworkSettingsAnswer
    lost_secrets: list[str] = Field(
        description="secrets of the workspace's last sandbox that have to be sent again: a server stores no values"
    )


class NetworkAttemptAnswer(BaseModel):
    """An attempt to reach a host."""

    host: str
    port: int
    verdict: Literal["allowed", "refused"]
    rule: str = Field(description="the rule that decided; empty if no rule covers the host")
    reason: str = Field(description="why it was refused, or what ended it early")
    bytes_up: int
    bytes_down: int
    duration: float
    time: float
    number: int
    allow: str = Field(description="the rule that would allow it; empty if it is allowed, or if no rule in `allow` can")


class NetworkLogAnswer(BaseModel):
    """Attempts, oldest first."""

    items: list[NetworkAttemptAnswer]


class NetworkAnswer(BaseModel):
    """The bytes that a sandbox sent and received."""

    sent: int
    received: int
