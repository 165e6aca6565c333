"""Compares two checkpoints of a session."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, SandboxId, TheCaller, TheService
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations

operations = Operations("/v1/sandboxes/{sandbox_id}", responses=ERROR_RESPONSES, tag="sessions")

Difference = Literal["created", "changed", "removed"]


class CompareBody(BaseModel):
    """Two checkpoints, by id or name; null is the present."""

    model_config = ConfigDict(extra="forbid")
    before: str | None = Field(default=None, max_length=300)
    after: str | None = Field(default=None, max_length=300)
    context: str | None = Field(default=None, max_length=300)


class ValueAnswer(BaseModel):
    """The value of a variable, in one line."""

    type: str
    shown: str


class ComparedVariable(BaseModel):
    """A variable that differs."""

    name: str
    kind: Difference
    before: ValueAnswer | None
    after: ValueAnswer | None


class ComparedContents(BaseModel):
    """The contents of a file; no text for a binary or a very large file."""

    size: int
    text: str | None


class ComparedFile(BaseModel):
    """A file that differs; its path is relative to /sandbox."""

    path: str
    kind: Difference
    before: ComparedContents | None
    after: ComparedContents | None


class ComparedAnswer(BaseModel):
    """The differences between two checkpoints; `truncated`: more files differ than are listed."""

    variables: list[ComparedVariable]
    files: list[ComparedFile]
    truncated: bool


@operations.post("/compare", scope="run", body="json", responses={200: {"model": ComparedAnswer}})
async def compare(sandbox_id: SandboxId, body: CompareBody, service: TheService, caller: TheCaller) -> Response:
    """Compare two checkpoints: which variables of a Python context and which files differ, and how."""
    return Json(await service.sessions.compare(caller, sandbox_id, body.before, body.after, body.context))
