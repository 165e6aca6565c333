"""The server itself: health, languages, keys, audit log, usage and metrics."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from cloche import __version__, environment, languages, settings
from cloche.doors.faults import for_client
from cloche.doors.http import documentation
from cloche.doors.http.answers import (
    AuditAnswer,
    CurrentKeyAnswer,
    KeyAnswer,
    KeyUsedAnswer,
    LanguageAnswer,
    Page,
    StatusAnswer,
    UsedAnswer,
    VersionAnswer,
)
from cloche.doors.http.bodies import KeyBody
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, page
from cloche.doors.http.problems import ERROR_RESPONSES, error_response
from cloche.doors.page import files as page_files
from cloche.doors.page import plain
from cloche.doors.ports import PortDoor
from cloche.doors.routing.routes import Operations
from cloche.errors import ClocheError, InvalidRun
from cloche.languages.availability import Availability, check_languages
from cloche.model.records import KeyRecord, UsageTotal
from cloche.policy.caller import SCOPES

operations = Operations(responses=ERROR_RESPONSES, tag="server")
_describing = Lock()

Days = Annotated[int, Query(ge=1, le=366, description="today (UTC) and the days before")]


@operations.get("/", scope="page", linked=True, include_in_schema=False)
@operations.head("/", scope="page")
async def home(request: Request) -> Response:
    """Send the playground, or a page with links if the playground was not built."""
    ports: PortDoor = request.app.state.ports
    known = request.headers.get("if-none-match", "")
    return page_files.page(known=known, ports=ports.origin(request.scope, "*")) or plain.home()


# The description is the same on every server of a version, and anybody may read it (docs/decisions/0028).


@operations.get("/docs", scope="public", linked=True, include_in_schema=False)
@operations.head("/docs", scope="public")
async def docs(request: Request) -> Response:
    """Send the API reference."""
    return await _described(request, "reference", lambda description: documentation.page(description))


@operations.get("/openapi.json", scope="public", linked=True, include_in_schema=False)
@operations.head("/openapi.json", scope="public")
async def openapi(request: Request) -> Response:
    """Send the description for programs."""
    return await _described(request, "description", lambda description: Json(description))


async def _described(request: Request, name: str, form: Callable[[dict[str, Any]], Response]) -> Response:
    """The description in some form, which is made once: that takes a second, and anybody can ask for it."""
    state = request.app.state

    def make() -> Response:
        with _describing:  # two threads must not make it at the same time
            if not hasattr(state, name):
                setattr(state, name, form(request.app.openapi()))
        kept: Response = getattr(state, name)
        return kept

    kept: Response | None = getattr(state, name, None)
    return kept if kept is not None else await to_thread(make)


@operations.get("/v1/health", scope="public", name="check_health", responses={200: {"model": StatusAnswer}})
@operations.head("/v1/health", scope="public")
async def health() -> Response:
    """Check that the server process answers."""
    return Json({"status": "ok"})


@operations.get("/v1/ready", scope="public", name="check_ready", responses={200: {"model": StatusAnswer}})
@operations.head("/v1/ready", scope="public")
async def ready(service: TheService) -> Response:
    """Check that the server accepts work: sandboxes start, the database answers, and the disk has room."""
    if service.stopping:
        return error_response(
            503,
            "busy",
            "The server is stopping.",
            "Use another server, or try again later.",
            None,
            {"Retry-After": "5"},
        )
    try:
        await service.check_ready()
    except ClocheError as found:
        problem = for_client(found)
        return error_response(503, "misconfigured", problem.message, problem.hint, None, {"Retry-After": "5"})
    return Json({"status": "ok"})


@operations.get("/v1/version", scope="read", name="get_version", responses={200: {"model": VersionAnswer}})
async def version() -> Response:
    """Get the version of the server."""
    return Json({"name": "cloche", "version": __version__, "api": "v1"})


@operations.get("/v1/languages", scope="read", name="list_languages", responses={200: {"model": Page[LanguageAnswer]}})
async def known_languages(limit: Limit = 100, after: After = None) -> Response:
    """List the languages with their versions.  `hint` says how to install a language that is not available."""
    states = await to_thread(_states)  # the first call runs programs to learn their versions
    return Json(page([_language(state) for state in states], limit, after))


@operations.get("/v1/usage", scope="read", name="get", tag="usage", responses={200: {"model": UsedAnswer}})
async def usage(service: TheService, caller: TheCaller, days: Days = 30) -> Response:
    """Get the number of runs, the CPU time and the bytes that the key's owner used on each day."""
    used = await service.usage.of_owner(caller, days)
    return Json({"owner": used.owner, "sandboxes": used.sandboxes, "days": _days(used.days)})


@operations.get(
    "/v1/usage/keys",
    scope="admin",
    name="list_by_key",
    tag="usage",
    responses={200: {"model": Page[KeyUsedAnswer]}},
)
async def usage_by_key(
    service: TheService, caller: TheCaller, days: Days = 30, limit: Limit = 100, after: After = None
) -> Response:
    """List what each key used on each day, of all owners."""
    used = await service.usage.by_key(caller, days)
    return Json(page([{"key": key, "days": _days(of_key)} for key, of_key in sorted(used.items())], limit, after))


@operations.get("/v1/key", scope="read", name="get_current", tag="keys", responses={200: {"model": CurrentKeyAnswer}})
async def current_key(service: TheService, caller: TheCaller) -> Response:
    """Get the key of this request: what it may do, and how much of its limits is in use."""
    current = service.keys.current(caller)
    scopes = [scope for scope in SCOPES if scope in caller.scopes]
    name = current.record.name if current.record is not None else ""
    answer = {"id": caller.key_id, "owner": caller.owner, "name": name, "scopes": scopes}
    network = service.networks.bound(caller).as_dict()
    return Json({**answer, "limits": dict(caller.policy.limits), "in_use": dict(current.in_use), "network": network})


@operations.post(
    "/v1/keys",
    scope="admin",
    name="create",
    tag="keys",
    body="json",
    status_code=201,
    responses={201: {"model": KeyAnswer}},
)
async def create_key(body: KeyBody, service: TheService, caller: TheCaller) -> Response:
    """Create an API key.  Only this answer contains the secret."""
    record, secret = await service.keys.create(caller, body.owner, body.name, body.scopes, _policy(body))
    return Json({**_key(record), "key": secret}, 201)


@operations.get("/v1/keys", scope="admin", name="list", tag="keys", responses={200: {"model": Page[KeyAnswer]}})
async def keys(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """List all keys, without their secrets."""
    return Json(page([_key(record) for record in service.keys.list(caller)], limit, after))


@operations.delete("/v1/keys/{key_id}", scope="admin", tag="keys", body="none", status_code=204)
async def revoke(
    request: Request, key_id: Annotated[str, Path(max_length=200)], service: TheService, caller: TheCaller
) -> Response:
    """Revoke a key at once.  What it has open ends."""
    request.state.outlives_key = (
        True  # so that a caller that revokes its own key still gets this answer (connections.py)
    )
    await service.keys.revoke(caller, key_id)
    return Response(status_code=204)


@operations.get("/v1/audit", scope="admin", name="list_audit", responses={200: {"model": Page[AuditAnswer]}})
async def audit(
    service: TheService,
    caller: TheCaller,
    owner: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = 100,
    after: After = None,
) -> Response:
    """List the entries of the audit log, newest first."""
    found, following = await service.audit.list(caller, owner=owner, limit=limit, after=after)
    items = [{name: getattr(record, name) for name in AuditAnswer.model_fields} for record in found]
    return Json({"items": items, "next": following})


@operations.get("/metrics", scope="admin", name="get_metrics", responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Get the metrics in the Prometheus format."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _states() -> list[Availability]:
    return check_languages(environment.manifest(settings.load().environment or environment.location()))


def _language(state: Availability) -> dict[str, Any]:
    language = languages.find(state.name)
    return {
        "name": state.name,
        "title": state.title,
        "aliases": list(language.aliases),
        "extensions": list(language.extensions),
        "programs": True,
        "sessions": state.sessions,
        "state": state.state,
        "version": state.version,
        "hint": f"{state.why} {state.remedy}".strip(),
        "hello": language.hello,
    }


def _days(days: Mapping[str, UsageTotal]) -> dict[str, Any]:
    return {day: {"runs": one.runs, "cpu_time": one.cpu_time, "bytes": one.bytes_moved} for day, one in days.items()}


def _key(record: KeyRecord) -> dict[str, Any]:
    limits = record.policy.get("limits", {})
    return {
        "limits": limits,
        **{name: getattr(record, name) for name in KeyAnswer.model_fields if hasattr(record, name)},
    }


def _policy(body: KeyBody) -> dict[str, Any]:
    if body.limits is not None and body.policy is not None:
        raise InvalidRun(
            "Give limits or policy, not both.", hint='A policy has the limits in a section: {"policy": {"limits": {}}}.'
        )
    return body.policy or {"limits": body.limits or {}}
