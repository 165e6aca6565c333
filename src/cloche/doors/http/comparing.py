"""Two moments of a session side by side."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, TheSandbox
from cloche.doors.http.problems import ALWAYS
from cloche.service import comparison
from cloche.doors.routing.routes import Operations
from cloche.service import comparing

operations = Operations("/v1/sandboxes/{sandbox_id}", responses=ALWAYS, tag="sessions")

Difference = Literal["created", "changed", "removed"]


class CompareBody(BaseModel):
    """Two checkpoints, by id or name; null is how things are now."""

    model_config = ConfigDict(extra="forbid")
    before: str | None = Field(default=None, max_length=300)
    after: str | None = Field(default=None, max_length=300)
    context: str | None = Field(default=None, max_length=300)


class ValueAnswer(BaseModel):
    """A variable's value, as far as it can be told in a line."""

    type: str
    shown: str


class ComparedVariable(BaseModel):
    """A variable that differs."""

    name: str
    kind: Difference
    before: ValueAnswer | None
    after: ValueAnswer | None


class FileAnswer(BaseModel):
    """A file's contents; no text when it has none, or too much."""

    size: int
    text: str | None


class ComparedFile(BaseModel):
    """A file that differs; its path is relative to /sandbox."""

    path: str
    kind: Difference
    before: FileAnswer | None
    after: FileAnswer | None


class ComparedAnswer(BaseModel):
    """What differs between two moments; `truncated`: in more files than are listed."""

    variables: list[ComparedVariable]
    files: list[ComparedFile]
    truncated: bool


@operations.post("/compare", scope="run", body="json", responses={200: {"model": ComparedAnswer}})
async def compare(held: TheSandbox, body: CompareBody) -> Response:
    """Which variables (of a Python context) and files differ between two checkpoints, and how."""
    return Json(await comparing.compare(held, body.before, body.after, body.context))
