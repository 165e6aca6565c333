"""The bodies of requests: these classes check them, and the OpenAPI description is made from them."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from cloche.doors.http.network_fields import NetworkField, network_in
from cloche.doors.http.package_fields import PackagesField, packages_in
from cloche.doors.json_input import read_json
from cloche.errors import InvalidRun
from cloche.io.tasks import off_loop
from cloche.model.files import Mount
from cloche.model.isolation import ISOLATIONS
from cloche.model.limits import BY_NAME, LIMITS
from cloche.model.network import Network

Size = Annotated[int | str, Field(description="bytes, or a text like 512M", examples=["512M"])]


def _any_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("Input should be a valid string")
    return value


# File names need not be UTF-8: bytes that are not arrive as lone surrogates, which pydantic's own `str` refuses.
Text = Annotated[Any, BeforeValidator(_any_text), WithJsonSchema({"type": "string"})]


def _by_name(value: Any) -> Any:
    if isinstance(value, dict):
        for name, one in value.items():
            if not isinstance(one, str):
                raise ValueError(f"{name[:100]!r} has to have a text as its value")
    return value


def _words(value: Any) -> Any:
    if isinstance(value, list) and not all(isinstance(word, str) for word in value):
        raise ValueError("Input should be a text, or a list of texts")
    return value


def _file_contents(value: Any) -> Any:
    if isinstance(value, dict):
        for name, one in value.items():
            if not isinstance(one, str) and not (isinstance(one, dict) and isinstance(one.get("base64"), str)):
                raise ValueError(f'{name[:100]!r} has to be a text, or {{"base64": a text}}')
    return value


# Objects are checked up to the first mistake: pydantic would describe all of them.
Texts = Annotated[dict[str, str], BeforeValidator(_by_name)]


ToolName = Annotated[str, Field(max_length=200)]


if TYPE_CHECKING:
    Isolation = str
else:
    Isolation = Literal[ISOLATIONS]


class Body(BaseModel):
    """The base of all bodies: a field that the server does not know is an error."""

    model_config = ConfigDict(extra="forbid")


class Base64(Body):
    """Binary data."""

    base64: str


class MountBody(Body):
    """A folder of the host that the sandbox can see."""

    source: str
    target: str
    writable: bool = False


_TYPES: dict[str, Any] = {"seconds": float | None, "bytes": Size, "cores": float, "processes": int}

if TYPE_CHECKING:

    class LimitFields(Body):
        """A field for each limit of `cloche.model.limits.LIMITS`."""

else:
    LimitFields = create_model(
        "LimitFields",
        __base__=Body,
        **{row.name: (_TYPES[row.unit], Field(row.default, description=row.help)) for row in LIMITS},
    )


class LimitsBody(LimitFields):
    """The limits of a sandbox; the operator bounds each, and a time that is null is the longest that is allowed."""

    def limits(self) -> dict[str, Any]:
        """Return the limits that the caller named."""
        return {name: getattr(self, name) for name in self.model_fields_set if name in BY_NAME}


EnvironmentName = Annotated[str, Field(min_length=1, max_length=100)]


class WhereBody(LimitsBody):
    """The fields of every request that makes a sandbox."""

    env: Texts | None = None
    mounts: dict[str, str] | list[MountBody] | None = None
    network: NetworkField = None
    packages: PackagesField = None
    environment: EnvironmentName | None = Field(None, description="the environment to start from, such as `report:v2`")
    isolation: Isolation = Field("auto", description="`e2b`: on a service that the operator has configured")

    def checked_mounts(self) -> dict[str, str] | list[Mount]:
        """Return the mounts as the service takes them."""
        if isinstance(self.mounts, list):
            return [Mount(mount.source, mount.target, mount.writable) for mount in self.mounts]
        return self.mounts or {}

    def checked_network(self) -> Network | None:
        """Return the policy as the service takes it."""
        return network_in(self.network)

    def wanted_packages(self) -> list[str] | dict[str, list[str]]:
        """Return the packages as the service takes them."""
        return packages_in(self.packages)


class ViewBody(Body):
    """The form of the result: `full`, or the text that a model should read."""

    view: Literal["full", "model"] | None = None
    budget: int | None = Field(None, ge=50, le=1_000_000, description="tokens that the text for a model may have")


class RunBody(WhereBody, ViewBody):
    """A program to run in a sandbox of its own."""

    language: str | None = Field("python", description="null: detected from the code, or from the name of the entry")
    code: Text | None = None
    files: Annotated[dict[str, str | Base64] | None, BeforeValidator(_file_contents)] = Field(
        None, description="contents by path, relative to /sandbox"
    )
    entry: str | None = Field(None, description="the file to run; with `code`, the path of that code among the files")
    stdin: Text | None = None
    stdin_base64: str | None = None
    args: Annotated[list[str], FailFast()] = []
    check: Literal["report", "block", "off"] = Field("report", description="what to do when types are wrong")
    interactive: bool = Field(False, description="keep standard input open for POST /v1/runs/{run}/input")


class CellBody(ViewBody):
    """Code to run in a session."""

    code: Text
    language: str | None = None
    context: str | None = None
    stdin: Text | None = None
    stdin_base64: str | None = None
    env: Texts | None = None
    timeout: float | None = None
    interactive: bool = False
    keep: int | None = Field(
        None, ge=0, description="bytes of output to keep in the result; by default all, with events the first megabyte"
    )


class SandboxBody(WhereBody):
    """A sandbox that stays alive between requests."""

    metadata: Texts | None = None
    ttl: float | None = Field(None, description="seconds until the sandbox ends; PATCH extends it")
    idle_timeout: float | None = Field(None, description="seconds without work after which the sandbox ends")
    tools: list[ToolName] | None = Field(
        None, max_length=500, description="names of the caller's functions that code inside may call"
    )
    undo: bool = False
    checkpoints: int = 16
    persistent: bool = Field(False, description="keep the files after the sandbox ends, as a workspace")
    workspace: str | None = Field(None, description="id of a workspace whose files to start with")


class SandboxChanges(Body):
    """Changes of a running sandbox; `ttl` counts from now, and null is the longest that is allowed."""

    ttl: float | None = None
    idle_timeout: float | None = None
    metadata: Texts | None = None


class ContextChoice(Body):
    """One context; null is all of them."""

    context: str | None = None


class ContextBody(Body):
    """A new context."""

    language: str = "python"
    cwd: Text | None = None
    env: Texts | None = None


class CheckpointBody(Body):
    """A new checkpoint."""

    name: str = ""


class ForkBody(Body):
    """A new context that continues from a checkpoint; null is the present state."""

    checkpoint: str | None = None
    context: str | None = None
    files: Literal["shared", "copy"] = "shared"


class AttemptBody(Body):
    """Code to try, and to keep or discard afterwards."""

    code: Text
    context: str | None = None
    timeout: float | None = None


class BestBody(Body):
    """Candidates of which the best is kept."""

    candidates: Annotated[list[Text], FailFast()]
    score: str | None = Field(None, description="a Python expression; null: the caller answers `score` events")
    context: str | None = None
    timeout: float | None = None


class CommandBody(Body):
    """A command (a shell line or a list of words), or a program in some language."""

    command: Annotated[Text | list[Text] | None, BeforeValidator(_words)] = None
    code: Text | None = None
    entry: Text | None = Field(None, description="the file to run; with `code`, the path of that code")
    language: str | None = Field(None, description="by default detected from the name of the entry, else Python")
    args: Annotated[list[str], FailFast()] = []
    build_timeout: float | None = Field(None, description=BY_NAME["build_timeout"].help)
    check: Literal["report", "block", "off"] = "report"
    cwd: Text | None = None
    env: Texts | None = None
    stdin: bool | Text = True
    stdin_base64: str | None = None
    timeout: float | None = None
    pty: bool = False
    size: tuple[int, int] = (80, 24)
    wait: bool = False


class InputBody(Body):
    """More standard input for a program."""

    data: Text | None = None
    data_base64: str | None = None
    eof: bool = False

    async def bytes(self) -> bytes:
        return await given_bytes("data", self.data, self.data_base64) or b""


class SignalBody(Body):
    """A signal, by number or by name."""

    signal: int | str


class ResizeBody(Body):
    """The size of a terminal."""

    columns: int
    rows: int


class AnswerBody(Body):
    """The answer to a call: a value, or an error."""

    value: Any = None
    error: Texts | None = None


class RenameBody(Body):
    """The new path of a file."""

    new_path: Text


class FolderBody(Body):
    """A folder to create."""

    path: Text


class PortBody(Body):
    """The time for which a port can be reached from outside."""

    ttl: float | None = Field(None, gt=0, le=86400 * 7)


class KeyBody(Body):
    """A new key."""

    owner: str
    name: str
    scopes: Annotated[list[str], FailFast()] = ["run"]
    policy: dict[str, Any] | None = Field(
        None, description="what the key may use, by section: `limits`, `network`, `packages`"
    )
    limits: dict[str, float] | None = Field(None, description="short for the section `limits` of the policy")


Known = TypeVar("Known", bound=Body)


async def checked(kind: type[Known], data: bytes) -> Known:
    """Parse the body of a route that also takes bodies that are not JSON."""
    try:
        return kind.model_validate(await read_json(data))
    except ValidationError as problem:
        raise RequestValidationError(problem.errors()) from None
    except ValueError:
        raise InvalidRun("The body is not JSON.") from None


async def given_bytes(name: str, text: str | None, base64: str | None) -> bytes | None:
    """Return the bytes of a field that comes as text or as base64."""
    if text is not None and base64 is not None:
        raise InvalidRun(f"Give {name} or {name}_base64, not both.")
    if base64 is not None:
        return await from_base64(f"{name}_base64", base64)
    if text is None:
        return None
    try:
        return await off_loop(len(text), lambda: text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidRun(f"{name} contains half of a surrogate pair, which cannot be encoded.") from None


async def from_base64(name: str, text: str) -> bytes:
    """Decode a field that comes as base64."""
    try:
        return await off_loop(len(text), lambda: b64decode(text, validate=True))
    except (NotBase64, ValueError):
        raise InvalidRun(f"{name} is not base64.") from None
