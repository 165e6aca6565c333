"""`/v1/workspaces`: the files of persistent sandboxes, which outlive them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel
from starlette.responses import Response

from cloche.doors.http.answers import Page
from cloche.doors.http.given import After, Json, Limit, TheCaller, TheService
from cloche.doors.http.problems import ALWAYS
from cloche.service.workspaces.workspaces import Workspace

router = APIRouter(prefix="/v1/workspaces", responses=ALWAYS, tags=["workspaces"])

Id = Annotated[str, Path(max_length=200)]


class WorkspaceAnswer(BaseModel):
    """Files that outlive their sandbox; `sandbox` had them last, and has them now if they are `open`."""

    id: str
    sandbox: str
    created: float
    saved: float
    bytes: int
    files: int
    open: bool


@router.get("", responses={200: {"model": Page[WorkspaceAnswer]}}, response_class=Response)
async def listed(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """Workspaces, newest first."""
    found, following = service.workspaces.list(caller.owner, limit, after)
    return Json({"items": [_json(workspace) for workspace in found], "next": following})


@router.get("/{workspace}", responses={200: {"model": WorkspaceAnswer}}, response_class=Response)
async def one(workspace: Id, service: TheService, caller: TheCaller) -> Response:
    """A workspace; POST /v1/sandboxes opens it."""
    return Json(_json(service.workspaces.find(caller.owner, workspace)))


@router.delete("/{workspace}", status_code=204, response_class=Response)
async def remove(workspace: Id, service: TheService, caller: TheCaller) -> Response:
    """Remove it with all its files, unless it is open."""
    await service.workspaces.remove(caller.owner, workspace)
    return Response(status_code=204)


def _json(workspace: Workspace) -> dict[str, Any]:
    about = workspace.about
    told = {name: getattr(about, name) for name in WorkspaceAnswer.model_fields if name != "open"}
    return {**told, "open": workspace.sandbox is not None}
