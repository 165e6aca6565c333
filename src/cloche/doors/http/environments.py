"""`/v1/environments`: build, list, find and remove environments; build logs, bills of materials and audits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from cloche.doors.http.answers import Page
from cloche.doors.http.bodies import Base64, Body, EnvironmentName, Texts
from cloche.doors.http.dependencies import After, Json, Limit, TheCaller, TheService, page
from cloche.doors.http.network_fields import NetworkField, network_in
from cloche.doors.http.package_fields import Names, PackageAnswer, PackageLists
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.http.streams import STREAMED, of_log, position
from cloche.doors.routing.routes import Operations
from cloche.io.tasks import LARGE, off_loop
from cloche.model.environments import EnvironmentSpec, Step
from cloche.model.packages import requirements_file
from cloche.packages.environment_spec import spec_of
from cloche.results.fields import plain
from cloche.service.builds import BuildRecord
from cloche.service.environments import EnvironmentInfo

operations = Operations("/v1/environments", responses=ERROR_RESPONSES, tag="environments")

Name = Annotated[str, Path(max_length=100, description="such as `report`, or `report:v2` with a tag")]
FileContent = str | Base64
_MODE, _PROGRAM = 0o644, 0o755


class StepBody(Body):
    """One step of a build; exactly one field is given."""

    run: str | None = Field(None, description="a command")
    script: str | None = Field(None, description="a script; its first line can name the program that runs it")
    folder: str | None = Field(None, description="the folder in which later commands run")
    env: Texts | None = Field(None, description="variables for later commands and for each sandbox")
    files: dict[str, FileContent] | None = Field(None, description="contents by path, relative to the folder")

    def step(self) -> Step:
        """Return the step as a builder takes it."""
        from cloche.errors import InvalidRun

        given = [name for name in StepBody.model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidRun("A step has exactly one of run, script, folder, env and files.")
        if self.files is not None:
            return Step("write", files=tuple((path, _data(path, each), _MODE) for path, each in self.files.items()))
        if self.env is not None:
            return Step("env", variables=self.env)
        return Step(given[0], getattr(self, given[0]))


class EnvironmentBody(Body):
    """The contents of an environment."""

    name: EnvironmentName
    packages: Names | PackageLists = Field([], description="such as `polars` or `httpx>=0.27`")
    requirements: str | None = Field(None, max_length=4 << 20, description="the text of a requirements.txt")
    npm: Names = Field([], description="packages for JavaScript, such as `lodash@4`")
    files: dict[str, FileContent] | None = Field(None, description="contents by path, relative to /sandbox")
    programs: list[str] = Field([], max_length=10_000, description="paths of `files` that can be executed")
    setup: str = Field("", description="a script that runs once, after the packages and files are there")
    steps: list[StepBody] = Field([], max_length=200, description="further steps, in this order")
    imports: list[str] = Field([], max_length=50, description="Python modules that sandboxes have imported already")
    env: Texts | None = None
    base: EnvironmentName | None = Field(None, description="the environment to begin with")
    from_lock: bool = Field(False, description="take the versions of the earlier environment of that name")
    network: NetworkField = None

    def spec(self) -> EnvironmentSpec:
        """Return the specification."""
        lists = self.packages if isinstance(self.packages, PackageLists) else PackageLists(python=self.packages)
        programs = set(self.programs)
        files = {
            path: (_data(path, each), _PROGRAM if path in programs else _MODE)
            for path, each in (self.files or {}).items()
        }
        return spec_of(
            packages=lists.python,
            npm=(*lists.javascript, *self.npm),
            requirements=requirements_file(self.requirements) if self.requirements else (),
            files=files,
            setup=self.setup,
            steps=[each.step() for each in self.steps],
            imports=self.imports,
            env=self.env,
            base=self.base or "",
            from_lock=self.from_lock,
        )


class BuildProblem(BaseModel):
    """Why a build failed."""

    message: str
    hint: str


class BuildAnswer(BaseModel):
    """The newest build of an environment on this server."""

    id: str
    state: Literal["queued", "building", "done", "failed"]
    created: float
    ended: float | None
    error: BuildProblem | None


class BuildStarted(BaseModel):
    """A build that has begun; its log is at `/v1/environments/{name}/events`."""

    name: str
    build: BuildAnswer


class EnvironmentAnswer(BaseModel):
    """An environment; without `digest` it has never been built."""

    name: str
    digest: str | None = Field(description="changes with everything that a sandbox would notice")
    created: float | None
    size: int = Field(description="bytes on the server's disk")
    packages: list[PackageAnswer] = Field(description="those that it adds")
    imports: list[str]
    shared: bool = Field(description="it belongs to the host, and every key can use it")
    build: BuildAnswer | None


class AuditFindingAnswer(BaseModel):
    """A package that the catalogue has an entry about."""

    name: str
    version: str
    language: Literal["python", "javascript"]
    id: str = Field(description="of the entry, such as MAL-2024-1234")
    summary: str
    malicious: bool


class EnvironmentAuditAnswer(BaseModel):
    """What the server's catalogue knows about an environment."""

    name: str
    packages: int = Field(description="packages that were looked up")
    findings: list[AuditFindingAnswer]
    malicious_known: int = Field(description="malicious packages in the catalogue")
    others_known: int = Field(description="other weaknesses in the catalogue")
    catalogue_age_days: float | None = Field(description="null: there is only the list that comes with Cloche")


@operations.post("", scope="run", body="json", status_code=202, responses={202: {"model": BuildStarted}})
async def create(body: EnvironmentBody, service: TheService, caller: TheCaller) -> Response:
    """Build an environment in the background, in place of an earlier one of that name."""
    spec = await off_loop(LARGE, body.spec)
    build = await service.environments.create(caller, body.name, spec, network_in(body.network))
    return Json({"name": build.name, "build": _build(build)}, 202)


@operations.get("", scope="read", name="list", responses={200: {"model": Page[EnvironmentAnswer]}})
async def listed(service: TheService, caller: TheCaller, limit: Limit = 100, after: After = None) -> Response:
    """List the environments that this key can use, and builds that have not led to one."""
    return Json(page([_json(each) for each in await service.environments.list(caller)], limit, after))


@operations.get("/{name}", scope="read", name="get", responses={200: {"model": EnvironmentAnswer}})
async def one(name: Name, service: TheService, caller: TheCaller) -> Response:
    """Get an environment, with the state of its newest build."""
    return Json(_json(await service.environments.find(caller, name)))


@operations.delete("/{name}", scope="run", name="remove", body="none", status_code=204)
async def remove(name: Name, service: TheService, caller: TheCaller) -> Response:
    """Remove an environment of your own, and end a build of that name.  Its sandboxes go on."""
    await service.environments.remove(caller, name)
    return Response(status_code=204)


@operations.get("/{name}/events", scope="read", name="events", stream="reader", responses={200: {"content": STREAMED}})
async def events(
    request: Request, name: Name, service: TheService, caller: TheCaller, after: int | None = None
) -> Response:
    """Follow the newest build: `state`, `log` with a line of text, and at last `end`."""
    return of_log(await service.environments.follow(caller, name), position(request, after))


_BILL: dict[str, Any] = {"application/json": {"schema": {"type": "object", "description": "CycloneDX 1.5"}}}


@operations.get("/{name}/sbom", scope="read", name="sbom", responses={200: {"content": _BILL}})
async def sbom(name: Name, service: TheService, caller: TheCaller) -> Response:
    """Get the bill of materials in CycloneDX's format."""
    return Json(await service.environments.sbom(caller, name))


@operations.get("/{name}/audit", scope="read", name="audit", responses={200: {"model": EnvironmentAuditAnswer}})
async def audit(name: Name, service: TheService, caller: TheCaller) -> Response:
    """Compare the packages with the server's catalogue of malicious packages and weaknesses."""
    found = await service.environments.audit(caller, name)
    return Json({**plain(found), "findings": [plain(each) for each in found.findings]})


def _data(path: str, content: FileContent) -> bytes:
    from base64 import b64decode

    from cloche.errors import InvalidRun

    if isinstance(content, str):
        return content.encode("utf-8", "surrogateescape")
    try:
        return b64decode(content.base64, validate=True)
    except ValueError:
        raise InvalidRun(f"The content of {path[:100]!r} is not base64.") from None


def _build(record: BuildRecord) -> dict[str, Any]:
    is_failed = record.state == "failed"
    error = {"message": record.message, "hint": record.hint} if is_failed else None
    return {**{name: getattr(record, name) for name in ("id", "state", "created", "ended")}, "error": error}


def _json(info: EnvironmentInfo) -> dict[str, Any]:
    found = info.environment
    return {
        "name": info.name,
        "digest": None if found is None else found.digest,
        "created": None if found is None else found.created,
        "size": 0 if found is None else found.size,
        "packages": [] if found is None else [plain(each) for each in found.packages],
        "imports": [] if found is None else list(found.imports),
        "shared": found is not None and found.shared,
        "build": None if info.build is None else _build(info.build),
    }
