# Generated from src/cloche/client/server.py by scripts/blocking.py: edit that file instead.
"""Requests to a server: keeps connections, raises the server's errors as exceptions, and repeats safe requests."""

from __future__ import annotations

import atexit
import os
import socket
import ssl
from _thread import start_new_thread
from json import loads
from time import monotonic
from urllib.parse import urlsplit

from cloche import __version__
from cloche.blocking.client.connection import Answer, Broken, ServerConnection
from cloche.blocking.client.tls import Tls, trusted
from cloche.blocking.io.connections import connect
from cloche.blocking.io.streams import Stream
from cloche.blocking.io.tasks import pause
from cloche.client import shapes
from cloche.errors import ClocheError, InvalidRun, Misconfigured, SandboxFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.sandbox.checks import Data

CONNECT_S = 10.0
ANSWER_S = 120.0  # time for the server to begin its answer, unless code has to run first
WAIT_S = 10.0  # total time that we wait for a server that answers "later"
TRIES = 5  # tries of a request that is safe to send twice
_FIRST_PAUSE_S = 0.05  # pause after the first failed try; it doubles each time
_MOST_IDLE = 16  # connections kept for the next request
_MOST_READ = 1 << 20  # most bytes of an error's answer that are read
SAFE = ("GET", "PUT", "DELETE")


class Server:
    """A Cloche server, and our key for it."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self._key = url, key
        parts = _parts(url)
        self.host, self.is_sealed = parts.hostname or "", parts.scheme == "https"
        self.port = parts.port or (443 if self.is_sealed else 80)
        self.prefix = parts.path.rstrip("/")
        lines = [f"Host: {parts.netloc.rpartition('@')[2]}", f"User-Agent: cloche/{__version__}"]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        self._headers = "\r\n".join(lines)
        self._idle: list[ServerConnection] = []
        self._has_answered = False

    def call(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send a request; return its answer, parsed from JSON, or None when it is empty."""
        data = b"" if body is None else shapes.json(body)
        answer = self.ask(method, path, data, **how)
        data = self.read(answer)
        try:
            return loads(data) if data else None
        except ValueError as problem:
            raise _nonsense(self.url) from problem

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.call("GET", f"{path}{'&' if '?' in path else '?'}limit=1000{after}")
            found += page["items"]
            if not page.get("next"):
                return found
            after = f"&after={shapes.quoted(str(page['next']))}"

    def read(self, answer: Answer) -> bytes:
        """Read the whole body of an answer; its connection then serves the next request."""
        try:
            data = answer.read(ANSWER_S)
        except BaseException as problem:
            answer.connection.close()
            if isinstance(problem, Broken | OSError):
                raise self.lost(problem) from problem
            raise
        self.done_with(answer)
        return data

    def ask(
        self,
        method: str,
        path: str,
        body: Data = b"",
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
        headers: str = "",
        safe: bool | None = None,
        timeout: float | None = ANSWER_S,
        fine: int = 0,
    ) -> Answer:
        """Send a request, again where that is safe; return its answer, body unread.  Errors but `fine` are raised."""
        safe = method in SAFE if safe is None else safe
        head = self._head(method, path, body, accept, content_type, headers)
        deadline, tried = monotonic() + WAIT_S, 0
        while True:
            tried += 1
            later = _FIRST_PAUSE_S * 2 ** (tried - 1)
            try:
                answer = self._ask_once(head, body, timeout)
            except Unreachable as problem:  # nothing was sent: trying again is always safe
                if tried >= TRIES or not problem.may_pass:
                    raise self._unreachable(problem) from problem
            except (Broken, OSError) as problem:
                began = isinstance(problem, Broken) and problem.began
                if tried >= TRIES or began or not safe:
                    raise self.lost(problem) from problem
            else:
                self._has_answered = True
                if answer.status < 300 or answer.status == fine:
                    return answer
                if answer.status < 400:
                    raise self._redirected(answer)
                error = self.error(answer)
                wait = _retry_after(answer, error, safe)
                if wait is None or monotonic() + wait > deadline:
                    raise error
                later = wait
            pause(later)

    def upload(self, method: str, path: str) -> Upload:
        """Begin a request whose body is sent piece by piece."""
        try:
            connection = self._connection()
        except Unreachable as problem:
            raise self._unreachable(problem) from problem
        how = "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n"
        return Upload(self, connection, self.head(method, path, how))

    def post(self, method: str, path: str) -> None:
        """Send a request from code that cannot await: over a free connection, or by a thread."""
        head = self._head(method, path, b"", "application/json", "application/json", "")
        for connection in list(self._idle):
            if connection.is_free() and connection.post(head):
                return
        start_new_thread(self._post_alone, (head,))

    def _post_alone(self, head: bytes) -> None:
        try:
            with socket.create_connection((self.host, self.port), CONNECT_S) as sock:
                if self.is_sealed:
                    with trusted().wrap_socket(sock, server_hostname=self.host) as sealed:
                        sealed.sendall(head)
                        sealed.recv(1)
                else:
                    sock.sendall(head)
                    sock.recv(1)  # when this returns, the server has read the request
        except OSError:
            pass  # no caller waits for the outcome

    def done_with(self, answer: Answer) -> None:
        """Keep the connection of an answer for the next request; the parts of the answer that matter have been read."""
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(answer.connection)
        else:
            answer.connection.close()

    def close(self) -> None:
        """Close the unused connections."""
        while self._idle:
            self._idle.pop().close()

    def open_stream(self) -> tuple[Stream | Tls, Any]:
        """Open a new connection, encrypted if the server's address says so."""
        try:
            stream, sock = connect(self.host, self.port, CONNECT_S)
        except OSError as problem:
            raise Unreachable(problem, may_pass=isinstance(problem, ConnectionError | TimeoutError)) from problem
        if not self.is_sealed:
            return stream, sock
        try:
            tls = Tls(stream, self.host)
            tls.shake_hands(CONNECT_S)
        except BaseException as problem:
            stream.close()
            if isinstance(problem, OSError):  # a wrong certificate will not be right the next time
                raise Unreachable(problem, may_pass=isinstance(problem, ConnectionError)) from problem
            raise
        return tls, sock

    def head(self, method: str, path: str, more: str) -> bytes:
        """Return the first lines of a request."""
        return f"{method} {self.prefix}{path} HTTP/1.1\r\n{self._headers}\r\n{more}\r\n".encode("latin-1")

    def key_headers(self) -> dict[str, str]:
        """Return the header with our key, for requests that other modules write."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def _head(self, method: str, path: str, body: Data, accept: str, content_type: str, headers: str) -> bytes:
        more = f"Accept: {accept}\r\n{headers}"
        if len(body) or method not in ("GET", "DELETE"):
            more += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return self.head(method, path, more)

    def _ask_once(self, head: bytes, body: Data, timeout: float | None) -> Answer:
        connection = self._connection()
        try:
            answer = connection.ask(head, body)
            answer.head(timeout)
        except BaseException:
            connection.close()
            raise
        return answer

    def _connection(self) -> ServerConnection:
        answering = []  # connections whose answers have arrived except for their end
        try:
            while self._idle:
                try:
                    connection = self._idle.pop()
                except IndexError:
                    break  # another thread was faster
                state = connection.state()
                if state == "ready":
                    return connection
                if state == "answering":
                    answering.append(connection)
                else:
                    connection.close()
        finally:
            self._idle.extend(answering)
        return ServerConnection(*self.open_stream())

    def error(self, answer: Answer) -> ClocheError:
        """Return the error that an answer describes."""
        data = self.read(answer)
        try:
            body = loads(data[:_MOST_READ])
        except ValueError:
            body = None
        return self.refusal(answer.status, body)

    def refusal(self, status: int, body: Any) -> ClocheError:
        """Return the error that the body of an answer describes."""
        return shapes.error(status, body, self.url, has_key=bool(self._key))

    def _unreachable(self, problem: Unreachable) -> Misconfigured:
        if problem.verification:
            return Misconfigured(
                f"The certificate of {self.url} is not trusted: {problem.verification}.",
                "Is the address right? SSL_CERT_FILE names a file with the certificates that you trust.",
            )
        if problem.is_tls:
            return Misconfigured(
                f"{self.url} does not answer with TLS: {problem}.",
                "If the server has no certificate, write http:// in its address.",
            )
        hint = "Is the server running? `cloche serve` starts one; CLOCHE_URL or url= says where it is."
        return Misconfigured(f"No server answers at {self.url}: {problem}.", hint)

    def _redirected(self, answer: Answer) -> Misconfigured:
        """Return the error for an answer that leads elsewhere.  It is not followed: the key is for this address."""
        self.read(answer)
        where = answer.headers.get("location", "")
        return Misconfigured(f"{self.url} redirects to {where!r:.200}.", f"Is that the server? {shapes.ADDRESS_HINT}")

    def lost(self, problem: BaseException) -> SandboxFailed:
        """Return the error for a connection that broke."""
        if isinstance(problem, TimeoutError):
            return SandboxFailed(f"The server at {self.url} does not answer.", "Look at its log.")
        hint = "Whether it was done is not known; look first."
        if not self.is_sealed and not self._has_answered:
            hint += " If the server uses TLS, write https:// in its address."
        return SandboxFailed(f"The connection to {self.url} broke: {_reason(problem)}.", hint)


class Upload:
    """A request whose body is sent piece by piece."""

    def __init__(self, server: Server, connection: ServerConnection, head: bytes) -> None:
        self._server, self._connection, self._head = server, connection, head
        self._answer = connection.begin()

    def send(self, data: Data) -> None:
        """Send a piece; raise the server's error if it has refused the request already."""
        if data:
            self._send(b"%x\r\n%b\r\n" % (len(data), bytes(data)))
            if self._connection.has_something():
                self._end()

    def finish(self) -> Any:
        """End the body; return the server's answer, parsed from JSON."""
        self._send(b"0\r\n\r\n")
        return loads(self._end())

    def close(self) -> None:
        """Leave the request unfinished: the server discards the pieces."""
        self._connection.close()

    def _send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        try:
            self._connection.send(head + data)
        except OSError as problem:
            try:
                self._answer.despite(problem)
            except Broken as broken:
                raise self._server.lost(broken) from broken
            self._end()

    def _end(self) -> bytes:
        try:
            self._answer.head(ANSWER_S)
        except (Broken, OSError) as problem:
            raise self._server.lost(problem) from problem
        if self._answer.status >= 400:
            raise self._server.error(self._answer)
        return self._server.read(self._answer)


class Unreachable(Exception):
    """No connection can be made."""

    def __init__(self, problem: Exception, may_pass: bool) -> None:
        super().__init__(_reason(problem))
        self.may_pass = may_pass
        self.is_tls = isinstance(problem, ssl.SSLError)
        self.verification = str(getattr(problem, "verify_message", "")).rstrip(".")  # why a certificate is not trusted


# One server for each address and key, so that all sandboxes of this process share its connections.  An idle connection
# is not tied to an event loop, so it survives the end of a loop.
_servers: dict[tuple[str, str], Server] = {}


def server_at(url: str, key: str) -> Server:
    """Return the server at an address."""
    known = _servers.get((url, key))
    if known is None:
        known = _servers.setdefault((url, key), Server(url, key))
    return known


def close_all() -> None:
    """Close all unused connections; in a forked child: the child's copies of the parent's connections."""
    for known in _servers.values():
        known.close()


atexit.register(close_all)
os.register_at_fork(after_in_child=close_all)


def _parts(url: str) -> Any:
    try:
        parts = urlsplit(url)
        possible = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and url.isascii()
    except ValueError:
        possible = False
    if not possible or any(character <= " " for character in url):
        raise InvalidRun(f"{url!r:.200} is no address of a server.", hint="Write it like http://localhost:8000.")
    return parts


def checked_key(key: str) -> str:
    """Return an API key that can be sent, or raise an error."""
    if not isinstance(key, str) or not key.isascii() or not key.isprintable():
        raise InvalidRun("This is no API key: it has characters that no key has.")
    return key


def _retry_after(answer: Answer, error: ClocheError, safe: bool) -> float | None:
    """Return when to try again, or None.  "Too many" and "busy" mean that the server did nothing."""
    if answer.status not in (429, 503) or not (safe or error.code in ("limit", "too_many", "busy")):
        return None
    try:
        return max(float(answer.headers["retry-after"]), 0.01)
    except (KeyError, ValueError):
        return None


def _reason(problem: BaseException) -> str:
    number = getattr(problem, "errno", None)
    if isinstance(problem, ConnectionError) and isinstance(number, int):
        return os.strerror(number)
    if isinstance(problem, ssl.SSLError) and problem.reason:
        return problem.reason.replace("_", " ").lower()
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return str(text).rstrip(".")


def _nonsense(url: str) -> SandboxFailed:
    return SandboxFailed(
        f"What answers at {url} is not a Cloche server, or one of another version: its answer makes no sense.",
        shapes.ADDRESS_HINT,
    )
