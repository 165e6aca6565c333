"""How a server in a sandbox is reached, and where its redirections may lead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urljoin, urlsplit

_LOCAL = frozenset(("localhost", "127.0.0.1", "0.0.0.0", "::1", "::"))
_IGNORED = re.compile(r"[\t\r\n]")  # by browsers, anywhere in an address
_BLANK = "".join(map(chr, range(0x21)))  # and these at its ends
_HOST = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+")  # anything else might be another name for our own
_DOT = re.compile("%2e", re.I)


@dataclass(frozen=True, slots=True)
class Way:
    """To one port, by an address that the client knows."""

    port: int
    scheme: str
    host: str
    """As in the client's Host header."""
    prefix: str
    """What is in front of the server's own paths; empty on an origin of its own."""
    needs_key: bool = False
    mask: str = ""
    """What the server reads as its Host, if that is not where it listens."""

    @property
    def is_shared(self) -> bool:
        """Is it below a path of our own origin, where the server's pages must have no rights?"""
        return bool(self.prefix)

    @property
    def origin(self) -> str:
        """The origin of the client's address."""
        return f"{self.scheme}://{self.host}"

    @property
    def inner(self) -> str:
        """The host that the server believes to be."""
        return f"localhost:{self.port}"

    def location(self, told: str, path: str) -> str | None:
        """Where a redirection of the server's leads a client; None when it is better not told.

        Below our own origin a client would take its key along, so an address there is always one of the server's own.
        """
        told = _IGNORED.sub("", told).strip(_BLANK)
        before, *after = re.split(r"([?#])", told, maxsplit=1)
        told = before.replace("\\", "/") + "".join(after)  # as browsers understand it
        try:
            if not self.is_shared and not urlsplit(told).netloc:
                return told  # on its own origin, wherever that is
            to = urlsplit(urljoin(f"http://{self.inner}{path}", told))
            name, port = to.hostname or "", to.port
        except ValueError:
            return None
        if to.scheme not in ("http", "https"):
            return None if self.is_shared else told
        if not name or self._is_inner(name, port or 80) or (self.is_shared and self._is_ours(to)):
            rest = (f"?{to.query}" if to.query else "") + (f"#{to.fragment}" if to.fragment else "")
            return f"{self.prefix or self.origin}{_straight(to.path)}{rest}"
        return None if self.is_shared and _is_odd(name) else told

    def _is_inner(self, name: str, port: int) -> bool:
        return name in _LOCAL and port == self.port

    def _is_ours(self, to: SplitResult) -> bool:
        ours = urlsplit(f"{to.scheme}://{self.host}")
        usual = 443 if to.scheme == "https" else 80
        return to.hostname == ours.hostname and (to.port or usual) == (ours.port or usual)


def _is_odd(name: str) -> bool:
    """Could a browser take this for the name of another host than we do?"""
    if _HOST.fullmatch(name) is None:
        return True
    try:
        return str(ip_address(name)) != name
    except ValueError:
        return name.rstrip(".").rpartition(".")[2][:1].isdigit()  # a number that is no plain address


def _straight(path: str) -> str:
    """A path without steps up or in place, however they are written."""
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
