"""Checks the heads of HTTP requests and prepares heads to be passed on.

A request passes only if every reader must understand it in the same way, and if it is for the host that the connection
is for.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

import h11

Headers = list[tuple[bytes, bytes]]
MAX_HEAD = 64 << 10
MAX_LINE = 64 << 10
_MAX_HEADERS = 200
_MAX_METHOD = 256
# Some readers end a line at CR, others at LF alone; and what some take for a blank, others take for a letter.
_LINE_END, _BLANKS = re.compile(rb"[\r\n]"), re.compile(rb"[\t\v\f\r \x1c-\x1f\x85\xa0]+")
_NO_METHOD, _TOKEN = re.compile(rb"[\0-\x1f\x7f-\xff]"), re.compile(rb"[!#-'*+\-.0-9A-Z^-z|~]*")
_FOR_PROXIES = b"\r\n\r\n\0\r\nQUIT\n"  # begins a note that a proxy writes before a request
_WRONG_LINE_END = re.compile(rb"(?<!\r)\n|\r(?=[^\n])|\0")
_HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te transfer-encoding upgrade "
    b"http2-settings".split()
)
# A sender may name further headers that are for the next reader alone; these are not its to name.
_NEVER_NAMED = frozenset((b"host", b"content-length", b"authorization", b"cookie", b"content-encoding", b"expect"))
_NOT_IN_TRAILERS = _HOP_BY_HOP | _NEVER_NAMED | {b"set-cookie", b"content-type", b"content-range", b"trailer"}


class Refusal(Exception):
    """A request is refused: its program gets `status` and a body that says why.  `dial` may raise it, too."""

    def __init__(self, status: int, reason: str, remedy: str = "", rule: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.remedy, self.rule = status, reason, remedy, rule


def begins_request(data: bytes) -> bool | None:
    """Whether a conversation that begins with this is one of HTTP; None as long as it can become one.

    Wider than the standard, since some servers are.
    """
    if data.startswith(_FOR_PROXIES):
        return True
    data = data.lstrip()  # some servers skip empty lines
    ends = [end for end in (_LINE_END.search(data), re.search(b"\n", data)) if end]
    if any(_is_request_line(data[: end.start()]) for end in ends):
        return True
    if len(ends) == 2:
        return False
    method = _BLANKS.split(data, 1)[0]
    if _NO_METHOD.search(method) or (len(method) > _MAX_METHOD and not _TOKEN.fullmatch(method)):
        return False
    return None if len(data) < MAX_LINE else True  # it is then refused for its length


def _is_request_line(line: bytes) -> bool:
    words = [word for word in _BLANKS.split(line) if word]
    if len(words) == 2:  # the first version of HTTP wrote no version
        is_all = words[1].startswith(b"*") and words[0].upper() != b"KEYS"  # of Redis
        return is_all or words[1].startswith(b"/") or b"://" in words[1]
    if len(words) < 3:
        return False
    protocol = words[-1].upper().partition(b"/")[:2]
    if protocol == (b"RTSP", b"/"):  # which Node takes for HTTP
        return not words[1].lower().startswith(b"rtsp:")
    return protocol in ((b"HTTP", b"/"), (b"ICE", b"/")) or words[0] == b"PROXY"


def end_of_head(data: bytes, looked_until: int) -> int:
    """The place after a request's head, or 0 while it is not complete; Refusal if it cannot become a good one."""
    start = max(0, looked_until - 3)
    end = data.find(b"\r\n\r\n", start)
    if _WRONG_LINE_END.search(data, start, len(data) if end < 0 else end + 4):
        raise Refusal(400, "A line of the request's head does not end with CR LF, or has a NUL.")
    if max(end, len(data) if end < 0 else 0) > MAX_HEAD:
        raise Refusal(400, f"The request's head is larger than {MAX_HEAD} bytes.")
    return end + 4 if end >= 0 else 0


def check_lines(head: bytes) -> None:
    """Refuse a head whose framing or host could be read in two ways."""
    first, *lines = head[:-4].split(b"\r\n")
    if len(first.split(b" ")) != 3:
        raise Refusal(400, "The first line is not that of an HTTP request.")
    if len(lines) > _MAX_HEADERS:
        raise Refusal(400, f"The request has more than {_MAX_HEADERS} headers.")
    if any(line[:1] in (b" ", b"\t", b"") for line in lines):
        raise Refusal(400, "A header goes on in the next line.")
    if any(re.match(rb"(?i)content-length:(?![ \t]*\d{1,18}[ \t]*\Z)", line) for line in lines):
        raise Refusal(400, "The length of the body is not a number.")
    names = [line.partition(b":")[0].lower() for line in lines]
    if names.count(b"host") != 1:
        raise Refusal(400, f"The request has {names.count(b'host')} Host headers instead of one.")
    if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
        raise Refusal(400, "The request says in more than one way how long its body is.")


class Asked:
    """A request that may pass."""

    def __init__(self, request: h11.Request, scheme: str, name: str, port: int) -> None:
        self.method = request.method
        self.is_old = request.http_version == b"1.0"
        if request.http_version not in (b"1.0", b"1.1"):
            raise Refusal(400, "The request's version is neither HTTP/1.0 nor HTTP/1.1.")
        values = {key: value for key, value in request.headers if key != b"connection"}
        host = values.get(b"host", b"")
        if self.method in (b"CONNECT", b"PRI"):
            raise Refusal(400, f"The method {self.method.decode()} makes no sense here.")
        if not _is_host(host, name, port):
            shown = host[:253].decode("latin-1")
            raise Refusal(421, f"The request is for the host {shown!r}, and the connection for {name}:{port}.")
        if b"transfer-encoding" in values and self.is_old:
            raise Refusal(400, "HTTP/1.0 knows no Transfer-Encoding.")
        self.target = _target(request, scheme, name, port)
        connection = _words(request.headers, b"connection")
        self.wants_close = b"close" in connection or (self.is_old and b"keep-alive" not in connection)
        self.is_upgrade = (
            b"upgrade" in connection
            and [value.strip().lower() for key, value in request.headers if key == b"upgrade"] == [b"websocket"]
            and self.method == b"GET"
            and not self.is_old
            and not values.keys() & {b"content-length", b"transfer-encoding"}
        )
        self.has_body = b"transfer-encoding" in values or values.get(b"content-length", b"0").strip(b"0") != b""
        self.headers = end_to_end(request.headers)
        if b"transfer-encoding" in values:
            self.headers.append((b"Transfer-Encoding", b"chunked"))  # h11 knows no other
        if b"trailers" in _words(request.headers, b"te"):
            self.headers.append((b"TE", b"trailers"))
        if self.is_old:
            self.headers = [(key, value) for key, value in self.headers if key.lower() != b"expect"]

    @property
    def is_repeatable(self) -> bool:
        return self.method in (b"GET", b"HEAD", b"OPTIONS", b"TRACE")

    def connection(self) -> Headers:
        """What is said to the server about the connection."""
        if self.is_upgrade:
            return [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
        return [(b"Connection", b"close")] if self.wants_close else []


def end_to_end(headers: h11._headers.Headers) -> Headers:
    """The headers that are for the other end, and not for the next reader alone."""
    dropped = _HOP_BY_HOP | {word for word in _words(headers, b"connection") if word not in _NEVER_NAMED}
    return [(raw, value) for raw, value in headers.raw_items() if raw.lower() not in dropped]


def trailers(headers: h11._headers.Headers) -> Headers:
    """The trailers that change nothing about how a message is read."""
    return [(raw, value) for raw, value in headers.raw_items() if raw.lower() not in _NOT_IN_TRAILERS]


def _words(headers: h11._headers.Headers, name: bytes) -> set[bytes]:
    listed = b",".join(value for key, value in headers if key == name)
    return {word.strip().lower() for word in listed.split(b",")}


def _target(request: h11.Request, scheme: str, name: str, port: int) -> bytes:
    """The target as a server wants it: a path."""
    target = request.target
    if target.startswith(b"/") or (target == b"*" and request.method == b"OPTIONS"):
        return target
    begin = scheme.encode() + b"://"
    if target[: len(begin)].lower() != begin:
        raise Refusal(400, f"The target is neither a path nor an address that begins with {scheme}://.")
    authority, rest = target[len(begin) :], b""
    if found := re.search(rb"[/?#]", authority):
        authority, rest = authority[: found.start()], authority[found.start() :]
    if not _is_host(authority, name, port):
        raise Refusal(421, f"The address in the request is not one of {name}:{port}.")
    return rest if rest.startswith(b"/") else b"/" + rest


def _is_host(text: bytes, name: str, port: int) -> bool:
    """Whether an authority, as `Host` has it, is this host; a port that is not written is any port."""
    found = re.fullmatch(rb"(\[[0-9A-Fa-f:.]+\]|[^:@\[\]/?#\s]+)(?::(\d{1,5}))?", text)
    if found is None or (found[2] is not None and int(found[2]) != port):
        return False
    host = found[1].decode("latin-1").strip("[]").lower()
    wanted = name.lower().removesuffix(".")
    if host.removesuffix(".") == wanted:
        return True
    try:
        return ip_address(host) == ip_address(wanted)
    except ValueError:
        return False
