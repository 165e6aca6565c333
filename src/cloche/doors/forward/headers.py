"""Filters headers: our own do not reach the server, and none that could harm our origin comes back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from starlette.types import Scope

from cloche.doors.forward.address import ServerAddress
from cloche.doors.forward.spelling import SpelledName, spelling_of

Headers = list[tuple[bytes, bytes]]

SANDBOX = b"sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade http2-settings".split()
)
_OURS_TO_SAY = frozenset(
    b"host content-length expect forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port "
    b"x-forwarded-prefix x-forwarded-server x-real-ip".split()
)
_SOCKET = b"sec-websocket-"
# Headers that speak about the server's whole origin, which below a path of ours would be our origin, and headers that
# make a browser ask a person for a password in our name.
_ABOUT_ORIGINS = frozenset(
    b"set-cookie set-cookie2 clear-site-data service-worker-allowed strict-transport-security alt-svc public-key-pins "
    b"public-key-pins-report-only expect-ct nel report-to reporting-endpoints accept-ch critical-ch "
    b"origin-agent-cluster speculation-rules use-as-dictionary timing-allow-origin www-authenticate "
    b"authentication-info x-content-type-options cross-origin-resource-policy x-permitted-cross-domain-policies".split()
)
_NOT_ITS_OWN = frozenset(
    (b"strict-transport-security", b"alt-svc")
)  # these speak about other ports, or about names below
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_DOMAIN = re.compile(rb";\s*domain\s*=[^;]*", re.I)


def inward(scope: Scope, address: ServerAddress, cookie: str, is_key: Callable[[str], bool]) -> Headers:
    """The headers of a request as the server in the sandbox gets them."""
    given: Headers = scope["headers"]
    spelling = spelling_of(scope)
    dropped = _HOP_BY_HOP | _OURS_TO_SAY | _named(given)
    headers: Headers = [(b"Host", (address.mask or address.inner).encode())]
    for name, value in given:
        name = name.lower()
        if name in dropped or name.startswith(_SOCKET):
            continue
        if name in (b"authorization", b"x-api-key") and (address.needs_key or is_key(_secret(value))):
            continue
        if name in (b"cookie", b"referer") and address.is_shared:
            continue  # these belong to our origin, not to the server
        if name == b"cookie":
            value = _without(value, cookie.encode())
        elif name == b"origin" and value.decode("latin-1").lower() == address.origin.lower():
            value = b"http://" + address.inner.encode()
        if value:
            headers.append((spelling.of(name), value))
    client = scope.get("client")
    headers += [
        (b"X-Forwarded-For", (client[0] if client else "unknown").encode()),
        (b"X-Forwarded-Host", address.host.encode()),
        (b"X-Forwarded-Proto", address.scheme.encode()),
    ]
    if address.prefix:
        headers.append((b"X-Forwarded-Prefix", address.prefix.encode()))
    return headers


def outward(given: Iterable[tuple[bytes, bytes]], address: ServerAddress, path: str, has_length: bool) -> Headers:
    """The headers of an answer as the client gets them; `has_length`: its Content-Length can be relied on."""
    given = list(given)
    dropped = _HOP_BY_HOP | _named(given) | (_ABOUT_ORIGINS if address.is_shared else _NOT_ITS_OWN)
    headers: Headers = []
    for spelled, value in given:
        name = spelled.lower()
        if name in dropped or _CONTROL.search(value) or (name == b"content-length" and not has_length):
            continue
        if address.is_shared and name.startswith(b"access-control-"):
            continue
        if name == b"location":
            to = address.location(value.decode("latin-1"), path)
            if to is None:
                continue
            value = to.encode("latin-1", "ignore")
        elif name == b"set-cookie":
            value = _DOMAIN.sub(b"", value)
        headers.append((SpelledName(spelled), value))
    names = {name for name, _ in headers}
    if address.is_shared:
        headers += [(b"content-security-policy", SANDBOX), (b"x-content-type-options", b"nosniff")]
        # Its pages have no origin, so even their own files count as cross-origin.
        headers.append((b"cross-origin-resource-policy", b"same-origin" if address.needs_key else b"cross-origin"))
    elif b"referrer-policy" not in names:
        headers.append((b"referrer-policy", b"same-origin"))  # the token is in the address
    return headers


def _named(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """The headers that `Connection` names: they are for one connection and not passed on."""
    values = b",".join(value for name, value in headers if name.lower() == b"connection")
    return frozenset(part.strip().lower() for part in values.split(b","))


def _secret(value: bytes) -> str:
    kind, _, rest = value.decode("latin-1").strip().partition(" ")
    return rest.strip() if kind.lower() == "bearer" else kind


def _without(cookies: bytes, name: bytes) -> bytes:
    pairs = (pair.strip() for pair in cookies.split(b";"))
    return b"; ".join(pair for pair in pairs if pair.partition(b"=")[0].strip() != name)
