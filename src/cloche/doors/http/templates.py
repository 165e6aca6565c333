"""`/v1/templates`: small projects to start from."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from cloche import templates
from cloche.doors.http.answers import Page, TemplateAnswer, TemplateSummary
from cloche.doors.http.dependencies import After, Json, Limit, page
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations

operations = Operations(responses=ERROR_RESPONSES, tag="server")


@operations.get(
    "/v1/templates", scope="read", name="list", tag="templates", responses={200: {"model": Page[TemplateSummary]}}
)
async def all_templates(limit: Limit = 100, after: After = None) -> Response:
    """List all templates, without the contents of their files."""
    return Json(page([template.summary() for template in templates.everything()], limit, after))


@operations.get(
    "/v1/templates/{name}", scope="read", name="get", tag="templates", responses={200: {"model": TemplateAnswer}}
)
async def one_template(name: Annotated[str, Path(max_length=200)]) -> Response:
    """Get a template with its files, in the form that `POST /v1/run` accepts."""
    return Json(templates.find(name).as_dict())
