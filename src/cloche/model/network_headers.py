"""The headers that a network policy sets in requests to some hosts.

In a header's text, `${NAME}` stands for the value of the policy's secret of that name, and `$${` for `${`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from cloche.errors import InvalidRun
from cloche.model.network_rules import Rule, rule
from cloche.model.secret import MAX_SECRET, Secret, is_header_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_HOSTS, _MAX_HEADERS = 100, 50
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_REFERENCE = re.compile(r"\$(\$(?=\{)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
# They say where a request goes, where it ends, or what becomes of the connection: Cloche checks or writes these itself.
_NOT_TO_SET = frozenset(
    (
        *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "te", "trailer"),
        *("expect", "proxy-connection", "proxy-authenticate", "proxy-authorization", "http2-settings"),
        *("accept-encoding", "range", "if-range"),
    )
)


def headers_of(given: Mapping[str, Any] | None, secrets: Mapping[str, Secret]) -> dict[str, dict[str, str]]:
    """The headers that a caller wrote, by the host in its normal form."""
    if given is not None and not isinstance(given, Mapping):
        raise InvalidRun(f"headers is a mapping of hosts to headers, not {given!r:.100}.")
    if given and len(given) > _MAX_HOSTS:
        raise InvalidRun(f"headers has {len(given)} hosts, and can have at most {_MAX_HOSTS}.")
    found: dict[str, dict[str, str]] = {}
    for host, headers in (given or {}).items():
        known = rule(host)
        if known.kind not in ("name", "below"):
            raise InvalidRun(
                f"Headers are for hosts with a name, not for {host!r:.100}.", hint="Write the host's name."
            )
        found.setdefault(str(known), {}).update(_checked(known, headers, secrets))
    return found


def filled(text: str, value_of: Callable[[str], str]) -> str:
    """A header's text with the values of the secrets that it names."""
    return _REFERENCE.sub(lambda found: value_of(found[2]) if found[2] else "$", text)


def named_secrets(texts: Iterable[str]) -> set[str]:
    """The names of the secrets that headers use."""
    return {name for text in texts for _, name in _REFERENCE.findall(text) if name}


def literal(text: str) -> str:
    """A text for a header in which nothing stands for a secret."""
    return text.replace("${", "$${")


def _checked(host: Rule, headers: Any, secrets: Mapping[str, Secret]) -> dict[str, str]:
    if not isinstance(headers, Mapping) or len(headers) > _MAX_HEADERS:
        raise InvalidRun(f"The headers for {host} are a mapping of at most {_MAX_HEADERS} names to texts.")
    for name, text in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidRun(f"{name!r:.100} is not the name of a header.")
        if name.lower() in _NOT_TO_SET or name.lower().startswith("sec-websocket-"):
            raise InvalidRun(f"The header {name} cannot be set: Cloche writes it itself.")
        if not isinstance(text, str) or len(text) > MAX_SECRET or not is_header_text(text):
            raise InvalidRun(f"The header {name} is a text of at most {MAX_SECRET} printable ASCII characters.")
        for secret in sorted(named_secrets([text])):
            _check_reference(secret, host, secrets)
    return dict(headers)


def _check_reference(name: str, host: Rule, secrets: Mapping[str, Secret]) -> None:
    if name not in secrets:
        raise InvalidRun(f"A header for {host} uses the secret {name}, which the policy does not have.")
    if not any(rule(each).includes(host) for each in secrets[name].hosts):
        raise InvalidRun(
            f"A header for {host} uses the secret {name}, which is not for that host.",
            hint="Add the host to the secret.",
        )
