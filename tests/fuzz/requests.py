"""Valid requests, mutated and sent to a real server, and the rule that every answer keeps."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, InvalidURL
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

from tests.conftest import Server
from tests.fuzz.budget import seeds
from tests.fuzz.mutations import Mutator

CORPUS = Path(__file__).parent / "corpus"
_METHODS = ("GET", "POST", "PUT", "PATCH", "HEAD", "OPTIONS", "PROPFIND")  # DELETE would end the conversation
_ANSWER_S = 30.0
_BODY_S = 0.3  # to read an answer's body, which may have no end
_LONGEST = 200  # requests of one conversation
_MOST = 256 << 10  # bytes that are read of an answer


@dataclass(frozen=True)
class Request:
    """One request of a conversation."""

    method: str
    path: str
    payload: Any = None  # JSON
    body: bytes | None = None  # instead of JSON
    enveloped: bool = False  # the JSON travels in an envelope of a Connect stream
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def content(self) -> bytes | None:
        """Return the body as it is sent."""
        if self.body is not None or self.payload is None:
            return self.body
        data = json.dumps(self.payload).encode("utf-8", "surrogatepass")
        return struct.pack(">BI", 0, len(data)) + data if self.enveloped else data

    def as_json(self) -> dict[str, Any]:
        """Return the request for the corpus, with its body as hexadecimal digits."""
        body = self.content()
        hexadecimal = None if body is None else body.hex()
        return {
            "method": self.method, "path": self.path, "query": self.query, "headers": self.headers, "body": hexadecimal
        }  # fmt: skip


def mutated(mutator: Mutator, request: Request) -> Request:
    """Change one part of a request."""
    act = mutator.random.randrange(12)
    if act == 0:
        return replace(request, method=mutator.random.choice(_METHODS))
    if act == 1:
        return replace(request, path=mutator.text(request.path))
    if act == 2 and request.query:
        name = mutator.random.choice(sorted(request.query))
        return replace(request, query={**request.query, name: mutator.text(request.query[name])})
    if act == 3 and request.headers:
        name = mutator.random.choice(sorted(request.headers))
        return replace(request, headers={**request.headers, name: mutator.text(request.headers[name])})
    content = request.content()
    if content is None:
        return replace(request, path=mutator.text(request.path))
    if act <= 5:
        return replace(request, body=mutator.data(content))
    return replace(request, payload=mutator.json(request.payload))


class Target:
    """A server, and the check that nothing sent to it is its fault."""

    def __init__(self, server: Server, name: str, allowed: frozenset[int] = frozenset()) -> None:
        self._server, self._corpus, self._allowed = server, CORPUS / name, allowed
        self.names: dict[str, str] = {}  # ids and secrets of the conversation in progress
        self._read = server.log.stat().st_size
        self.statuses: dict[int, int] = {}

    def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request; return the status and the beginning of the answer's body."""
        connection = HTTPConnection("127.0.0.1", self._server.port, timeout=_ANSWER_S)
        try:
            headers = {name: value.encode("utf-8", "replace") for name, value in request.headers.items()}
            connection.request(request.method, _target(request), request.content(), headers)
            answer = connection.getresponse()
            body, end = b"", monotonic() + _BODY_S
            if connection.sock is not None:
                connection.sock.settimeout(_BODY_S)
            try:
                while len(body) < _MOST and monotonic() < end and (piece := answer.read1(_MOST)):
                    body += piece
            except (TimeoutError, HTTPException):
                pass  # a stream that has no end, or that the server broke off
        finally:
            connection.close()
        if answer.status >= 500 and answer.headers["retry-after"]:
            return 429, body  # busy, and the answer says so
        return answer.status, body

    def problem(self, request: Request) -> str:
        """Return what is wrong with the answer to a request."""
        try:
            status, body = self.send(request)
        except (InvalidURL, UnicodeError, ValueError):
            return ""  # no client can send it
        except (OSError, HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status >= 500 and status not in self._allowed:
            return f"{status} {body[:300]!r}"
        with open(self._server.log, "rb") as log:
            log.seek(self._read)
            written = log.read()
            self._read = log.tell()
        return "a traceback in the log: " + written.decode()[-2000:] if b"Traceback" in written else ""

    def fuzz(self, begin: Callable[[], list[Request]]) -> int:
        """Send mutations of a conversation until the time is over; return how many.

        The conversation begins anew from time to time, because mutations also end its sandbox.
        """
        count, conversation = 0, begin()
        for seed in seeds():
            mutator = Mutator(seed)
            if count % _LONGEST == _LONGEST - 1:
                conversation = begin()
            request = mutated(mutator, mutator.random.choice(conversation))
            if problem := self.problem(request):
                place = self._keep(request)
                raise AssertionError(
                    f"seed {seed}: {problem}\nThe request is kept as {place}; commit it with the mend."
                )
            count += 1
        return count

    def past(self) -> list[Request]:
        """Return the requests of past findings."""
        found = []
        for path in sorted(self._corpus.glob("*.json")):
            kept = json.loads(path.read_text())
            body = None if kept["body"] is None else bytes.fromhex(kept["body"])
            found.append(filled(Request(**{**kept, "body": body}), **self.names))
        return found

    def _keep(self, request: Request) -> str:
        """Write the request down without the names and secrets of this run: {sandbox} and {token} stand for them."""
        self._corpus.mkdir(parents=True, exist_ok=True)
        place = self._corpus / f"finding-{abs(hash(str(request))) % 10**8}.json"
        text = json.dumps(request.as_json(), indent=1)
        for name, value in self.names.items():
            text = text.replace(value, f"{{{name}}}") if len(value) > 8 else text
        place.write_text(text + "\n")
        return place.name


def filled(request: Request, **names: str) -> Request:
    """Put ids and secrets into the places that are marked for them, as {sandbox}."""

    def fill(text: str) -> str:
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    return replace(
        request,
        path=fill(request.path),
        headers={name: fill(value) for name, value in request.headers.items()},
        payload=json.loads(fill(json.dumps(request.payload))),
    )


def _target(request: Request) -> str:
    path = quote(request.path.encode("utf-8", "surrogatepass"), safe="/%:.?&=+~-")
    query = urlencode(request.query, errors="surrogatepass")
    return f"{path}?{query}" if query else path
