"""Servers inside sandboxes, reached through us."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from cloche.doors.http.problems import Unwelcome, answer
from cloche.service.service import Service


class Ports:
    """To be written."""

    def __init__(self, service: Service, port: Callable[[], int]) -> None:
        self._service, self._port = service, port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer(Unwelcome(404, "gone", "There is nothing here."))(scope, receive, send)
