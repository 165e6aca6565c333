"""Networks that fail as networks do: a wire that can be cut, and a server that says what it was told to say."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Self
from urllib.parse import urlsplit


class Listener:
    """Takes connections, each in a thread of its own."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break every connection that there is."""
        while self._open:
            try:
                self._open.pop().shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it was closed already

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(taken)
            thread = threading.Thread(target=self._guarded, args=(taken,))
            self._threads.append(thread)
            thread.start()

    def _guarded(self, taken: socket.socket) -> None:
        with taken:
            try:
                self.serve(taken)
            except OSError:
                pass  # cut

    def serve(self, taken: socket.socket) -> None:
        """Talk with one who has connected."""
        raise NotImplementedError


class Wire(Listener):
    """Passes on, both ways, what comes; sealed with TLS on our side when there is a certificate."""

    def __init__(self, url: str, certificate: str | None = None) -> None:
        super().__init__()
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)
        self.watch: Callable[[bytes], bool] = lambda _: False  # of what comes from the server: is this to be cut?

    def serve(self, taken: socket.socket) -> None:
        """Pass on."""
        with socket.create_connection(self._target) as server:
            if self._tls is None:
                self._pass_on(taken, server)
            else:
                with self._tls.wrap_socket(taken, server_side=True) as sealed:  # which takes its place
                    self._open.append(sealed)
                    self._pass_on(sealed, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        while True:
            pending = isinstance(client, ssl.SSLSocket) and client.pending()
            ready = [client] if pending else select.select([client, server], [], [])[0]
            for source in ready:
                data = source.recv(65536)
                if not data or (source is server and self.watch(data)):
                    return
                (server if source is client else client).sendall(data)


class Scripted(Listener):
    """Answers the n-th request with the n-th of its answers; None closes the connection without a word."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        super().__init__()
        self._answers = list(answers)
        self.requests: list[bytes] = []

    def serve(self, taken: socket.socket) -> None:
        """Read requests, and answer them."""
        rest = b""
        while True:
            while b"\r\n\r\n" not in rest:
                more = taken.recv(65536)
                if not more:
                    return
                rest += more
            head, _, rest = rest.partition(b"\r\n\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            length = int(headers.get(b"content-length", 0))
            while len(rest) < length:
                rest += taken.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + rest[:length])
            rest = rest[length:]
            answer = self._answers.pop(0) if self._answers else None
            if answer is None:
                return
            taken.sendall(answer)


def answer(status: int, body: str, headers: str = "") -> bytes:
    """An answer in JSON."""
    data = body.encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    return head.encode() + data
