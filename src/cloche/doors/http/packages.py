"""`/v1/sandboxes/{id}/packages` and `/v1/packages`: the packages of a sandbox, of the index, and the policy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from cloche.doors.http.answers import Page
from cloche.doors.http.dependencies import After, Json, Limit, SandboxId, TheCaller, TheService, page
from cloche.doors.http.package_fields import (
    InstallAnswer,
    InstallBody,
    Language,
    PackageAnswer,
    PackagePolicyAnswer,
    RemovedAnswer,
    SearchAnswer,
    packages_in,
)
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations
from cloche.results.fields import plain

operations = Operations(responses=ERROR_RESPONSES, tag="packages")

_OF_SANDBOX = "/v1/sandboxes/{sandbox_id}/packages"


@operations.get(_OF_SANDBOX, scope="read", name="list", responses={200: {"model": Page[PackageAnswer]}})
async def listed(
    sandbox_id: SandboxId, service: TheService, caller: TheCaller, limit: Limit = 1000, after: After = None
) -> Response:
    """List the packages that programs in a sandbox can import."""
    found = await service.packages.list(caller, sandbox_id)
    return Json(page([plain(each) for each in found], limit, after))


@operations.post(_OF_SANDBOX, scope="run", name="install", body="json", responses={200: {"model": InstallAnswer}})
async def install(sandbox_id: SandboxId, body: InstallBody, service: TheService, caller: TheCaller) -> Response:
    """Install packages in a sandbox.  Running sessions can import them at once."""
    wanted = packages_in(body.packages)
    return Json(_json(await service.packages.install(caller, sandbox_id, wanted, language=body.language)))


@operations.delete(_OF_SANDBOX, scope="run", name="uninstall", body="none", responses={200: {"model": RemovedAnswer}})
async def uninstall(
    sandbox_id: SandboxId,
    service: TheService,
    caller: TheCaller,
    name: Annotated[list[str], Query(max_length=200, description="a package; can be repeated")] = [],  # noqa: B006
    language: Language = "python",
) -> Response:
    """Remove packages that were installed in a sandbox."""
    removed = await service.packages.uninstall(caller, sandbox_id, name, language=language)
    return Json({"removed": list(removed)})


@operations.get("/v1/packages/search", scope="run", name="search", responses={200: {"model": SearchAnswer}})
async def search(
    service: TheService,
    caller: TheCaller,
    q: Annotated[str, Query(min_length=1, max_length=100, description="a name, or words such as pdf")],
    language: Language = "python",
) -> Response:
    """Search packages by name and by words of their descriptions."""
    found = await service.packages.search(caller, q, language=language)
    return Json({"items": [plain(each) for each in found], "warnings": list(found.warnings)})


_POLICY: dict[int | str, dict[str, Any]] = {200: {"model": PackagePolicyAnswer}}


@operations.get("/v1/packages/policy", scope="read", name="get_policy", responses=_POLICY)
async def policy(service: TheService, caller: TheCaller) -> Response:
    """Get the policy for the packages that this key installs."""
    return Json((await service.packages.policy(caller)).as_dict())


def _json(done: Any) -> dict[str, Any]:
    return {name: plain(getattr(done, name)) for name in InstallAnswer.model_fields}
