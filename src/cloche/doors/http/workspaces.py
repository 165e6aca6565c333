"""`/v1/workspaces`: the files of persistent sandboxes, which remain when the sandbox ends."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel
from starlette.responses import Response

from cloche.doors.http.answers import Page
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations
from cloche.service.workspaces.workspaces import Workspace

operations = Operations("/v1/workspaces", responses=ERROR_RESPONSES, tag="workspaces")

Id = Annotated[str, Path(max_length=200)]


class WorkspaceAnswer(BaseModel):
    """Files that remain when their sandbox ends; `sandbox` used them last, and uses them now if they are `open`."""

    id: str
    sandbox: str
    created: float
    saved: float
    bytes: int
    files: int
    open: bool


@operations.get("", scope="read", name="list", responses={200: {"model": Page[WorkspaceAnswer]}})
async def listed(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """List workspaces, newest first."""
    found, following = service.workspaces.list(caller, limit, after)
    return Json({"items": [_json(workspace) for workspace in found], "next": following})


@operations.get("/{workspace}", scope="read", name="get", responses={200: {"model": WorkspaceAnswer}})
async def one(workspace: Id, service: TheService, caller: TheCaller) -> Response:
    """Get a workspace.  `POST /v1/sandboxes` opens it in a sandbox."""
    return Json(_json(service.workspaces.find(caller, workspace)))


@operations.delete("/{workspace}", scope="run", name="delete", body="none", status_code=204)
async def remove(workspace: Id, service: TheService, caller: TheCaller) -> Response:
    """Delete a workspace and its files, unless a sandbox has it open."""
    await service.workspaces.remove(caller, workspace)
    return Response(status_code=204)


def _json(workspace: Workspace) -> dict[str, Any]:
    about = workspace.about
    fields = {name: getattr(about, name) for name in WorkspaceAnswer.model_fields if name != "open"}
    return {**fields, "open": workspace.sandbox is not None}
