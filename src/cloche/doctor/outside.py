"""A small world outside, for probes of network policies: services of this host under names that Cloche resolves."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import contextmanager
from threading import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

GREETING = b"cloche-probe-answer"
_LONGEST = 4096
_PATIENCE_S = 10.0
_TLS = b"\x16"


class Outside:
    """Two services, which answer to the first line that they get, or the first bytes of TLS.

    `allowed` and `other` are names of an address that is open, `closed` of one that is not.
    """

    allowed, other, closed = "allowed.cloche-probe.test", "other.cloche-probe.test", "closed.cloche-probe.test"

    def __init__(self) -> None:
        first, second, third = secrets.token_bytes(3)
        self.address, self.closed_address = (f"127.{net}.{second}.{third or 1}" for net in (128 + first // 4, 255))
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        try:
            self.port = self._serve(self.address, 0)
            self.other_port = self._serve(self.address, 0)
            self._serve(self.closed_address, self.port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for listening in self._sockets:
            listening.close()

    @contextmanager
    def known(self) -> Iterator[None]:
        """Replace the operator's settings by those that make Cloche find the services."""
        names = {self.allowed: self.address, self.other: self.address, self.closed: self.closed_address}
        settings = {
            "CLOCHE_NETWORK_PRIVATE": f"{self.address}/32",
            "CLOCHE_NETWORK_HOSTS": ",".join(f"{name}={address}" for name, address in names.items()),
        }
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def given(self) -> dict[str, Any]:
        """Return the facts for an attacker."""
        names = ("allowed", "other", "closed", "address", "closed_address", "port", "other_port")
        return {**{name: getattr(self, name) for name in names}, "greeting": GREETING.decode()}

    def _serve(self, address: str, port: int) -> int:
        listening = socket.create_server((address, port))
        self._sockets.append(listening)
        Thread(target=_answer_all, args=(listening,), daemon=True).start()
        return int(listening.getsockname()[1])


def _answer_all(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # it was closed
        Thread(target=_answer, args=(connection,), daemon=True).start()  # a silent one keeps no other waiting


def _answer(connection: socket.socket) -> None:
    with connection:
        connection.settimeout(_PATIENCE_S)
        try:
            said = connection.recv(_LONGEST)
            while b"\n" not in said and said[:1] != _TLS and (more := connection.recv(_LONGEST)):
                said += more
            connection.sendall(GREETING)
        except OSError:
            pass
