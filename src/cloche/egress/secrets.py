"""Puts the values of secrets into a program's requests, and takes them out of the answers.

The program holds placeholders.  Where one stands in a header of a request, also inside `Authorization: Basic`, the
value is sent; the request's target and its body stay as they are.

In headers and bodies of answers the placeholder takes the value's place again, also where the value is split over
several pieces.  A value is found

- as it is;
- percent-encoded, with capital or small digits: all but letters, digits and `-._~`, and the same with `/` or `!'()*` or
  both kept, with `+` for a space, with all that is reserved in an address kept, or every single character;
- in a JSON string: as written by most, with `\\/`, and with `\\u003c` and the like for `<`, `>`, `&`, `'`, `+` and `=`;
- in HTML: `&amp;`, `&lt;`, `&gt;`, `&quot;`, `&#34;`, `&#39;` and `&#x27;`;
- in hexadecimal digits, all capital or all small;
- in base64, standard or for addresses, wherever in the encoded text it begins: but for the two or three characters at
  each end, which it shares with its neighbours.  Values of fewer than 8 characters are not looked for in this form.

It is not found where it is encoded twice, compressed, encrypted or broken into lines, or in an encoding of the server's
own.  So Cloche asks for bodies that are neither compressed nor ranges; it reads gzip and deflate from a server that
sends them all the same, and refuses other encodings.  In a WebSocket, as many `*` take the value's place.
"""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from cloche.egress.http_heads import Headers, Refusal

_PIECE = 64 << 10
_MOST_HEADERS = 256 << 10  # bytes, with the values in them
_LEAST_IN_BASE64 = 8
_MOST_BEGINNINGS = 256  # of one text in a piece that are compared; then all from there on is kept back
# What would let an answer come in a form in which a value is not seen.
_NOT_SENT = frozenset((b"accept-encoding", b"range", b"if-range", b"sec-websocket-extensions"))


class Held:
    """A secret's value, with the placeholder that a program has for it, or sees in its place."""

    def __init__(self, name: str, value: str, placeholder: str, is_in_programs: bool = True) -> None:
        self.told = (name, value, placeholder, is_in_programs)
        self.name, self.is_in_programs = name, is_in_programs
        self.value = value.encode("ascii")
        self.placeholder = placeholder.encode("ascii")
        self.forms = _forms(value)

    def __repr__(self) -> str:
        return f"Held({self.name!r})"


class Exchange:
    """The secrets that a host may get, and the headers that it gets, for one connection to it.

    `turn` is held while something is changed.  All connections of a sandbox share one: together, they keep those of
    other sandboxes waiting no longer than one of them would.
    """

    def __init__(
        self, secrets: Iterable[Held], headers: Iterable[tuple[bytes, bytes]] = (), turn: asyncio.Lock | None = None
    ) -> None:
        self._secrets, self._headers = tuple(secrets), tuple(headers)
        self.turn = turn or asyncio.Lock()
        self._replaced_names = {_plain(name) for name, _ in self._headers}
        self._stand_ins = {form: each.placeholder for each in reversed(self._secrets) for form in each.forms}
        # A placeholder may be far longer than its value.
        growth = max((len(each.placeholder) / len(each.value) for each in self._secrets), default=1)
        self._piece = int(_PIECE / max(1, growth))
        self._body = _Cleaning(self._stand_ins)
        self._raw = _Cleaning(dict.fromkeys(self._stand_ins, b""))
        self._packed: _Inflating | None = None

    def __repr__(self) -> str:
        return f"Exchange({list(self._secrets)})"

    def is_like(self, other: Exchange | None) -> bool:
        """Whether another one puts the same into requests."""
        return other is not None and (self._secrets, self._headers) == (other._secrets, other._headers)

    def request(self, headers: Headers) -> Headers:
        """The headers with the values in them, and with those that the policy sets."""
        dropped = self._replaced_names | (_NOT_SENT if self._secrets else set())
        found = [(name, self._filled(name, value)) for name, value in headers if _plain(name) not in dropped]
        found += self._headers
        if sum(len(value) for _, value in found) > _MOST_HEADERS:
            raise Refusal(400, "With its secrets, the head of the request is too large.")
        return [*found, (b"Accept-Encoding", b"identity")] if self._secrets else found

    def response_headers(self, headers: Headers) -> Headers:
        """The headers without the values."""
        found = [(self._body.clean(name), self._body.clean(value)) for name, value in headers]
        if sum(len(value) for _, value in found) > _MOST_HEADERS:
            raise Refusal(502, "With placeholders for its secrets, the head of the answer is too large.")
        return found

    def response_head(self, headers: Headers) -> Headers:
        """The same for those of an answer with a body, which begins."""
        if not self._secrets:
            return headers
        self._body = _Cleaning(self._stand_ins)
        encodings = b",".join(value for name, value in headers if name.lower() == b"content-encoding").lower()
        named = [each.strip() for each in encodings.split(b",") if each.strip() not in (b"", b"identity")]
        if len(named) > 1 or (named and named[0] not in _WINDOWS):
            raise Refusal(
                502,
                "The server sent its answer in an encoding in which a secret would not be found.",
                "Where a secret is used, answers can be compressed with gzip or deflate alone.",
            )
        self._packed = _Inflating(*_WINDOWS[named[0]]) if named else None
        return self.response_headers([each for each in headers if each[0].lower() != b"content-encoding"])

    def response_body(self, chunk: bytes) -> Iterator[bytes]:
        """A part of the body without the values, in pieces."""
        for unpacked in (chunk,) if self._packed is None else self._packed.feed(chunk):
            for place in range(0, len(unpacked), self._piece):
                if cleaned := self._body.feed(unpacked[place : place + self._piece]):
                    yield cleaned

    def response_end(self) -> Iterator[bytes]:
        """What was kept back because a value might have begun there."""
        if self._packed is not None:
            self._packed.end()
        if cleaned := self._body.end():
            yield cleaned

    def raw(self, chunk: bytes) -> bytes:
        """The bytes of a WebSocket, as many as came but for a few that are kept back; with nothing given, those."""
        return self._raw.feed(chunk) if chunk else self._raw.end()

    def _filled(self, name: bytes, value: bytes) -> bytes:
        scheme, _, encoded = value.partition(b" ")
        if name.lower() == b"authorization" and scheme.lower() == b"basic":
            try:
                plain = base64.b64decode(encoded.strip(), validate=True)
            except ValueError:
                return self._replaced(value)  # the value itself may be in base64
            filled = self._replaced(plain)
            return value if filled == plain else scheme + b" " + base64.b64encode(filled)
        return self._replaced(value)

    def _replaced(self, value: bytes) -> bytes:
        if b"cloche_secret_" in value:
            for each in self._secrets:
                if each.is_in_programs:
                    value = value.replace(each.placeholder, each.value)
        return value


def _plain(name: bytes) -> bytes:
    """A header's name as servers compare it; to some, `_` is the same as `-`."""
    return name.lower().replace(b"_", b"-")


class _Cleaning:
    """Replaces texts in a stream of bytes, by `*` without a stand-in; it keeps back no more than the start of one."""

    def __init__(self, stand_ins: dict[bytes, bytes]) -> None:
        self._stand_ins = stand_ins
        self._rest = b""

    def clean(self, data: bytes) -> bytes:
        return self._until(data, len(data))[0]

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        cleaned, place = self._until(data, self._beginning(data))
        self._rest = data[place:]
        return cleaned

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        return self.clean(rest)

    def _until(self, data: bytes, stop: int) -> tuple[bytes, int]:
        """Replace the texts that begin before a place; return what comes of the data, and where the rest begins."""
        places = {text: at for text in self._stand_ins if (at := data.find(text)) >= 0}
        cleaned, place = list[bytes](), 0
        while places:
            text = min(places, key=lambda each: (places[each], -len(each)))  # of two at one place, the longer
            if places[text] >= stop:
                break
            cleaned += (data[place : places[text]], self._stand_ins[text] or b"*" * len(text))
            place = places[text] + len(text)
            for other in [each for each, at in places.items() if at < place]:
                places[other] = data.find(other, place)
                if places[other] < 0:
                    del places[other]
        stop = max(place, stop)
        return b"".join((*cleaned, data[place:stop])), stop

    def _beginning(self, data: bytes) -> int:
        """Where a text begins that may go on in the next piece; the end of the data if there is none."""
        found = len(data)
        for text in self._stand_ins:
            place = data.find(text[:1], max(0, len(data) - len(text) + 1), found)
            left = _MOST_BEGINNINGS
            while place >= 0:
                left -= 1
                if not left or text.startswith(data[place:]):
                    found = place
                    break
                place = data.find(text[:1], place + 1, found)
        return found


def _forms(value: str) -> tuple[bytes, ...]:
    """The forms in which a value is looked for."""
    percent = [
        quote(value, safe=""),
        quote(value, safe="/"),
        quote(value, safe="!'()*"),
        quote(value, safe="/!'()*"),
        quote(value, safe=";/?:@&=+$,#!'()*"),
        quote(value, safe="!#$&'()*+,/:;=?@[]"),
        quote_plus(value),
        "".join(f"%{ord(char):02X}" for char in value),
    ]
    percent += [re.sub("%..", lambda digits: digits[0].lower(), each) for each in percent]
    in_json = json.dumps(value)[1:-1]
    scripts = [in_json, in_json.replace("/", "\\/")]
    for risky in ("<>&", "<>&'", "<>&'+="):
        for digits in ("04x", "04X"):
            codes = {ord(char): f"\\u{ord(char):{digits}}" for char in risky}
            scripts += [each.translate(codes) for each in scripts[:2]]
    escaped = html.escape(value)
    pages = [html.escape(value, quote=False), escaped, escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")]
    pages += [escaped.replace("&#x27;", "&#39;"), escaped.replace("&#x27;", "'")]
    texts = [value, *percent, *scripts, *pages, value.encode().hex(), value.encode().hex().upper()]
    forms = [text.encode() for text in texts]
    if len(value) >= _LEAST_IN_BASE64:
        forms += _in_base64(value.encode())
    return tuple(dict.fromkeys(forms))


def _in_base64(value: bytes) -> Iterator[bytes]:
    for before in range(3):
        # The characters at both ends depend on the neighbours, too: those are not part of the form.
        first, last = -(-before * 8 // 6), (before + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + value)[first:last]


class _Inflating:
    """Reads a body that is compressed in one of some ways, which look different from their beginning on."""

    def __init__(self, *windows: int) -> None:
        self._first, *self._others = windows
        self._inflater = zlib.decompressobj(self._first)
        self._is_begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inflater.eof:  # gzip may have several parts
                self._inflater = zlib.decompressobj(self._first)
            try:
                piece = self._inflater.decompress(data, _PIECE)
            except zlib.error:
                if not self._others:
                    raise _unreadable() from None
                self._first = self._others.pop(0)
                self._inflater = zlib.decompressobj(self._first)
                continue
            self._others.clear()
            self._is_begun = True
            data = self._inflater.unconsumed_tail or self._inflater.unused_data
            if piece:
                yield piece

    def end(self) -> None:
        if self._is_begun and not self._inflater.eof:  # the answer to HEAD has nothing to begin with
            raise _unreadable()


_WINDOWS = {
    b"gzip": (16 + zlib.MAX_WBITS,),
    b"x-gzip": (16 + zlib.MAX_WBITS,),
    b"deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS),  # some servers leave its wrapper out
}


def _unreadable() -> Refusal:
    return Refusal(502, "The server's answer is not in the encoding that it names.")
