"""The address by which a client reaches a server in a sandbox, and where that server's redirections may lead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit

_LOCAL = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1", "::"))
_IGNORED = re.compile(r"[\t\r\n]")  # browsers ignore these anywhere in an address
_BLANK = "".join(map(chr, range(0x21)))  # and these at both ends
_HOST = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+")  # anything else might be another spelling of our own name
_DOT = re.compile("%2e", re.I)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of one port, as the client knows it."""

    port: int
    scheme: str
    host: str
    """The client's Host header."""
    prefix: str
    """The path in front of the server's own paths; empty when the server has an origin of its own."""
    needs_key: bool = False
    mask: str = ""
    """The Host header that the server gets, if it is not the address where the server listens."""

    @property
    def is_shared(self) -> bool:
        """Whether the address is below a path of our own origin, where the server's pages must have no rights."""
        return bool(self.prefix)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def inner(self) -> str:
        """The name that the server has for itself."""
        return f"localhost:{self.port}"

    def location(self, target: str, path: str) -> str | None:
        """Translate the target of the server's redirection for the client; None when the client must not get it.

        Below our own origin a client would send its key along, so a target there always means the server itself.
        """
        target = _IGNORED.sub("", target).strip(_BLANK)
        before, *after = re.split(r"([?#])", target, maxsplit=1)
        target = before.replace("\\", "/") + "".join(after)  # as browsers understand it
        try:
            if not self.is_shared and not urlsplit(target).netloc:
                return target  # on its own origin, wherever that is
            to = urlsplit(urljoin(f"http://{self.inner}{path}", target))
            name, port = to.hostname or "", to.port
        except ValueError:
            return None
        if to.scheme not in ("http", "https"):
            return None if self.is_shared else target
        if not name or self._is_inner(name, port or 80) or (self.is_shared and self._is_ours(to)):
            rest = (f"?{to.query}" if to.query else "") + (f"#{to.fragment}" if to.fragment else "")
            return f"{self.prefix or self.origin}{_straight(to.path)}{rest}"
        return None if self.is_shared and _is_odd(name) else target

    def _is_inner(self, name: str, port: int) -> bool:
        return name in _LOCAL and port == self.port

    def _is_ours(self, to: SplitResult) -> bool:
        ours = urlsplit(f"{to.scheme}://{self.host}")
        usual = 443 if to.scheme == "https" else 80
        return to.hostname == ours.hostname and (to.port or usual) == (ours.port or usual)


def _is_odd(name: str) -> bool:
    """Whether a browser might take this for the name of another host than we do."""
    if _HOST.fullmatch(name) is None:
        return True
    try:
        return str(ip_address(name)) != name
    except ValueError:
        return name.rstrip(".").rpartition(".")[2][:1].isdigit()  # a number that is no plain address


def _straight(path: str) -> str:
    """The path without `.` and `..`, however they are written."""
    parts: list[str] = []
    segments = path.split("/")
    for segment in segments[1:]:
        plain = _DOT.sub(".", segment)
        if plain == "..":
            del parts[-1:]
        elif plain != ".":
            parts.append(segment)
    if _DOT.sub(".", segments[-1]) in (".", ".."):
        parts.append("")
    return "/" + "/".join(parts)
