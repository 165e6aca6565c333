"""Server-sent events, as a client reads them."""

from __future__ import annotations

from collections.abc import Iterator
from json import loads
from typing import Any, NamedTuple

import httpx2

STREAM = {"Accept": "text/event-stream"}


class Event(NamedTuple):
    """One event."""

    number: int
    kind: str
    data: dict[str, Any]


def events(answer: httpx2.Response) -> Iterator[Event]:
    """The events of a stream, as they come."""
    assert answer.status_code in (200, 201), answer.read()
    assert answer.headers["content-type"].startswith("text/event-stream")
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            continue
        if not line and fields:
            yield Event(int(fields["id"]), fields["event"], loads(fields["data"]))
            fields = {}
        elif line:
            name, _, value = line.partition(": ")
            assert name not in fields
            fields[name] = value


def all_events(client: httpx2.Client, method: str, path: str, **more: Any) -> list[Event]:
    """All events of a stream, up to its end."""
    more["headers"] = {**STREAM, **more.get("headers", {})}
    with client.stream(method, path, **more) as answer:
        return list(events(answer))


def text_of(found: list[Event], stream: str = "stdout") -> str:
    """What was printed, by a stream's events."""
    return "".join(one.data["text"] for one in found if one.kind == stream)
