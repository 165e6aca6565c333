"""A request to E2B's control API, and its reply."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope

from cloche.doors.e2b.answers import Refusal, header, json_body
from cloche.doors.e2b.times import from_microseconds, to_microseconds
from cloche.doors.routing.access import UNDECLARED, Access
from cloche.policy.caller import Caller

_PAGE = 100
_LONGEST_S = 10**12  # an integer of any length need not fit a float; the server's own bounds are far below
_TOKEN = re.compile(r"(\d{1,18})-([a-z]+_?[0-9a-f]{47})")


@dataclass
class ControlRequest:
    scope: Scope
    receive: Receive
    caller: Caller
    name: str  # the variable part of the path
    part: str = ""  # a second one, such as the id of a build

    @cached_property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    async def body(self) -> dict[str, Any]:
        """Receive the JSON body; an empty body is an empty object."""
        return await json_body(self.receive)

    def header(self, name: bytes) -> str:
        """Return a header, or an empty text."""
        return header(self.scope, name)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Return a number from the query."""
        try:
            value = float(self.query.get(name, default))
        except ValueError:
            raise Refusal(400, f"{name} is not a number.") from None
        if not low <= value <= high:
            raise Refusal(400, f"{name} may be {low:g} to {high:g}.")
        return value


class Reply(NamedTuple):
    status: int = 204
    payload: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Route(NamedTuple):
    """The name of a request in the metrics."""

    path: str


class ControlOperation(NamedTuple):
    """An operation of the control API, with the access that it declares."""

    handler: Callable[[ControlRequest], Awaitable[Reply]]
    access: Access = UNDECLARED


ControlOperations = dict[tuple[str, ...], ControlOperation]
"""By method and the segments of the path; an empty segment stands for a name."""


class Place(NamedTuple):
    """The place of an item in a list: its time, and its id among items of the same time."""

    time: datetime
    id: str


def paged(
    request: ControlRequest,
    items: list[Any],
    place: Callable[[Any], Place],
    to_json: Callable[[Any], Any],
    *,
    ascending: bool = False,
) -> Reply:
    """Return one page of a list, ordered by time.  The token is its last place, whose item may end meanwhile."""
    limit = int(request.number("limit", _PAGE, 1, _PAGE))
    items = sorted(items, key=place, reverse=not ascending)
    if token := request.query.get("nextToken"):
        after = _place(token)
        items = [item for item in items if (place(item) > after if ascending else place(item) < after)]
    page = items[:limit]
    following = ((b"x-next-token", _token(place(page[-1])).encode()),) if len(items) > limit else ()
    return Reply(200, [to_json(item) for item in page], following)


def _token(place: Place) -> str:
    return f"{to_microseconds(place.time)}-{place.id}"


def _place(token: str) -> Place:
    found = _TOKEN.fullmatch(token)
    try:
        if found is not None:
            return Place(from_microseconds(int(found[1])), found[2])
    except OverflowError:
        pass
    raise Refusal(400, "nextToken was not issued by this server.")


def texts(body: dict[str, Any], name: str) -> dict[str, str]:
    """Return a field of a body that is an object of texts."""
    value = body.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        raise Refusal(400, f"{name} is an object of texts.")
    return value


def seconds(body: dict[str, Any], name: str, default: float) -> float:
    """Return a field of a body that is a number of seconds."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LONGEST_S:
        raise Refusal(400, f"{name} is a number of seconds.")
    return float(value)
