"""The rules of a network policy: what a person may write, and what each rule covers.

A rule is a preset (`public`, `packages`), a name (`api.github.com`), all names below one (`*.example.org`), any name
(`*`), or a range of addresses (`203.0.113.0/24`), and may end with a port: `db.example.org:5432`, `*:8443`,
`[2001:db8::]/32:443`.
"""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network, IPv6Network

WEB_PORTS = (80, 443)  # of a rule that names no port
# What `public` covers: the web, SSH, mail submission and reading, and the usual databases.
PUBLIC_PORTS = (22, 80, 443, 465, 587, 993, 995, 3306, 5432, 6379, 27017)
PRESETS = ("public", "packages")
DNS_PORT, PROXY_PORT = 53, 3128  # Cloche itself answers on these
_OURS = {DNS_PORT: "Cloche answers DNS itself", PROXY_PORT: "Cloche's own proxy has it"}
MAX_RULE = 300  # characters
MAX_NAME, MAX_LABEL = 253, 63
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")
_HOW = (
    "Write a name, *.name, an address range such as 203.0.113.0/24, public or packages; "
    "and :PORT, if it is not 80 or 443."
)


class Rule(Plain):
    """One rule.  Its kind is "preset", "any", "name", "below" (all names below one) or "addresses"."""

    kind: str
    value: str  # the preset, the name, the name above, or the range
    port: int | None = None  # None: the usual ports of its kind

    def __str__(self) -> str:
        shown = {"any": "*", "below": f"*.{self.value}"}.get(self.kind, self.value)
        if self.port is None:
            return shown
        if ":" in shown:
            address, _, length = shown.partition("/")
            return f"[{address}]/{length}:{self.port}"
        return f"{shown}:{self.port}"

    def ports(self) -> tuple[int, ...]:
        """The ports that it covers."""
        if self.port is not None:
            return (self.port,)
        return PUBLIC_PORTS if self.kind == "preset" and self.value == "public" else WEB_PORTS

    def covers_name(self, name: str) -> bool:
        """Whether it covers a name, on some port; the name is normalised."""
        if self.kind == "name":
            return name == self.value
        if self.kind == "below":
            return name.endswith(f".{self.value}")
        return self.kind == "any" or (self.kind == "preset" and self.value == "public")

    def network(self) -> IPv4Network | IPv6Network:
        """The addresses of a rule for a range."""
        from ipaddress import ip_network

        return ip_network(self.value)

    def includes(self, other: Rule) -> bool:
        """Whether everything that the other rule covers is covered by this one; as a bound, `public` has any port."""
        is_public = self.kind == "preset" and self.value == "public"
        if not is_public and not set(other.ports()) <= set(self.ports()):
            return False
        if is_public or (self.kind, self.value) == (other.kind, other.value):
            return True
        if other.kind in ("name", "below"):
            return self.kind == "any" or (self.kind == "below" and other.value.endswith(f".{self.value}"))
        if self.kind == other.kind == "addresses":
            mine, others = self.network(), other.network()
            return mine.version == others.version and others.subnet_of(mine)  # type: ignore[arg-type]
        return False


def rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """The rules that a person wrote, each once."""
    return tuple(dict.fromkeys(rule(text) for text in texts))


def rule(text: str) -> Rule:
    """One rule that a person wrote; InvalidRun says what is wrong with it."""
    if not isinstance(text, str) or not text or len(text) > MAX_RULE:
        raise InvalidRun(f"{text!r:.100} is not a network rule.", hint=_HOW)
    written = text.strip().lower()
    if "://" in written or "@" in written or "?" in written:
        raise InvalidRun(f"{text!r} is an address of a page, and not a network rule.", hint="Write its host alone.")
    host, port = _split(written, text)
    if host in PRESETS:
        if port is not None and host != "public":
            raise InvalidRun(f"The preset {host} has its own ports.", hint=f"Write {host} alone.")
        return Rule("preset", host, port) if port is None else Rule("any", "", port)
    if host == "*":
        return Rule("any", "", port)
    if _is_like_an_address(host):
        return Rule("addresses", _range(host, text), port)
    if host.startswith("*."):
        return Rule("below", _checked_name(host[2:], text), port)
    return Rule("name", _checked_name(host, text), port)


def rule_for(host: str, port: int) -> str:
    """The narrowest rule, as a person writes it, that covers a host on a port."""
    shown = f"[{host}]/128" if ":" in host and port not in WEB_PORTS else host
    return host if port in WEB_PORTS else f"{shown}:{port}"


def normal_name(text: str) -> str | None:
    """A host name in lower case, in its ASCII form and without a final dot; None if it cannot be a host's name."""
    name = text.lower().removesuffix(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    labels = name.split(".")
    fits = 0 < len(name) <= MAX_NAME and all(0 < len(label) <= MAX_LABEL for label in labels)
    if not fits or not _LETTERS.issuperset(name.replace(".", "")) or _is_number(labels[-1]):
        return None
    return name if all(label[0] != "-" != label[-1] for label in labels) else None


def _split(written: str, text: str) -> tuple[str, int | None]:
    """Separate a rule into its host and its port."""
    host, port = written, ""
    if written.startswith("["):
        address, bracket, rest = written[1:].partition("]")
        length, _, port = rest.partition(":")
        host = address + length if bracket else ""
    elif written.count(":") == 1:
        host, _, port = written.partition(":")
        if not port:
            raise InvalidRun(f"{text!r} ends with a colon and no port.", hint=_HOW)
    if not port:
        return host, None
    if not port.isdecimal() or not port.isascii() or not 1 <= int(port[:6]) <= 65535:
        raise InvalidRun(f"{port!r} in the rule {text!r} is not a port.", hint="A port is a number from 1 to 65535.")
    if int(port) in _OURS:
        raise InvalidRun(f"No rule can name port {port}: {_OURS[int(port)]}.", hint="Leave the port out.")
    return host, int(port)


def _is_like_an_address(host: str) -> bool:
    return not host or ":" in host or "/" in host or _is_number(host.rpartition(".")[2])


def _is_number(label: str) -> bool:
    """Whether a name's last label makes the whole an address, also an octal or hexadecimal one."""
    return label.isdecimal() or (label[:2] == "0x" and all(char in "0123456789abcdef" for char in label[2:]))


def _range(host: str, text: str) -> str:
    from ipaddress import ip_network

    try:
        if "%" in host:
            raise ValueError("an address with a zone belongs to one machine")
        found = ip_network(host, strict=False)
    except ValueError:
        raise InvalidRun(f"{text!r} is neither a name nor a range of addresses.", hint=_HOW) from None
    mapped = getattr(found.network_address, "ipv4_mapped", None)  # connections to these have the IPv4 address
    return str(found) if mapped is None or found.prefixlen < 96 else f"{mapped}/{found.prefixlen - 96}"


def _checked_name(name: str, text: str) -> str:
    found = normal_name(name)
    if found is None:
        raise InvalidRun(f"{text!r} is not a host's name.", hint=_HOW)
    return found
