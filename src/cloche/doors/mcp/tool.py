"""The definition of a tool: its description for the model, its checked arguments, and its declared answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from pydantic import BaseModel, ConfigDict, ValidationError

from cloche.doors.faults import for_client, unexpected
from cloche.doors.mcp.conversation import MadeSession, Visit, time_text
from cloche.errors import ClocheError
from cloche.results.cleaning import clean

_MAX_MESSAGE = 10_000  # characters of an error, which may repeat an argument of the client


class ToolArguments(BaseModel):
    """The arguments of a tool; unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Answer(BaseModel):
    """A structured answer, or a part of one; fields that are None are left out."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


class NewSession(Answer):
    """A session that was made for this call."""

    session: str
    """The id to pass as `session` in later calls, from this connection or another with the same key."""
    message: str
    """How to go on with the session, and how long it lasts."""
    idle_timeout: float
    """The session ends after this many seconds without work."""
    expires: str | None = None
    """When the session ends at the latest."""
    outlives_connection: bool
    """Whether the session can be used after this connection has ended."""


class ToolAnswer(Answer):
    """The structured answer of a tool, next to the text for the model."""

    new_session: NewSession | None = None
    """Only when this call has made a session: its variables and files start empty."""


@dataclass(frozen=True)
class Tool:
    """A tool, and the function that does its work."""

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    answer: type[ToolAnswer]
    work: Callable[[Visit, Any], Awaitable[types.CallToolResult]]
    reads: bool = False  # changes nothing
    destroys: bool = False  # may delete or replace data
    idempotent: bool = False
    connects: bool = False  # may reach the network

    def described(self) -> types.Tool:
        """Return the description that clients receive."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=_schema(self.arguments),
            output_schema=_schema(self.answer),
            annotations=types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.idempotent or self.reads,
                open_world_hint=self.connects,
            ),
        )

    async def call(self, visit: Visit, arguments: dict[str, Any] | None) -> types.CallToolResult:
        """Call the tool.  Every failure becomes an answer that a model can act on."""
        try:
            result = await self._attempt(visit, arguments)
        finally:
            with anyio.CancelScope(shield=True):
                await visit.over()
        for made in visit.made:
            _announce(result, made)
        return result

    async def _attempt(self, visit: Visit, arguments: dict[str, Any] | None) -> types.CallToolResult:
        try:
            return await self.work(visit, self.arguments.model_validate(arguments or {}))
        except ValidationError as problem:
            return failure(
                "invalid", f"The arguments of {self.name} are invalid. {_complaint(problem)}", "Correct them."
            )
        except ClocheError as found:
            shown = for_client(found, "mcp")
            hint = shown.hint
            if (after := getattr(shown, "retry_after", None)) is not None:
                hint = f"{hint} Try again in {after:.0f} seconds.".lstrip()
            return failure(shown.code, shown.message, hint)
        except Exception as found:
            fault = unexpected(found)
            return failure(fault.code, fault.message, fault.hint)


def success(text: str, answer: ToolAnswer, more: Sequence[types.ContentBlock] = ()) -> types.CallToolResult:
    """Return the answer of a tool: a text for the model, a structured answer for programs, and maybe pictures."""
    return types.CallToolResult(content=[text_block(text), *more], structured_content=answer.as_json())


def failure(kind: str, message: str, hint: str) -> types.CallToolResult:
    """Return an answer that explains why a tool did nothing, and what to do next."""
    message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"
    text = f"[error] {kind}: {clean(message)}" + (f"\n{clean(hint)}" if hint else "")
    return types.CallToolResult(content=[text_block(text)], is_error=True)


def _announce(result: types.CallToolResult, made: MadeSession) -> None:
    """Add a new session to an answer: for the model as a text of its own, for programs as a field."""
    result.content.append(text_block(f"[note] {made.message}"))
    if result.structured_content is not None:
        news = NewSession(
            session=made.view.id,
            message=made.message,
            idle_timeout=made.view.idle_timeout,
            expires=None if made.view.record.expires is None else time_text(made.view.record.expires),
            outlives_connection=made.lasts,
        )
        result.structured_content["new_session"] = news.as_json()


def text_block(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def _complaint(problem: ValidationError) -> str:
    complaints = []
    for error in problem.errors(include_url=False, include_context=False, include_input=False)[:5]:
        place = ".".join(str(part)[:1000] for part in error["loc"])
        complaints.append(f"{place}: {error['msg']}" if place else error["msg"])
    return "; ".join(complaints) + "."


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON Schema that every client understands: an optional field is only not required, and never null."""
    schema: dict[str, Any] = _plainer(model.model_json_schema(mode="validation"))
    schema.pop("description", None)
    return schema


def _plainer(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_plainer(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if names:  # the keys are names of properties, and a property may be called "title"
        return {name: _plainer(value) for name, value in schema.items()}
    kept = {name: _plainer(value, names=name in ("properties", "$defs")) for name, value in schema.items()}
    kept.pop("title", None)
    if "default" in kept and kept["default"] is None:
        del kept["default"]
        forms = [form for form in kept.pop("anyOf", ()) if form != {"type": "null"}]
        if len(forms) == 1:
            kept = {**forms[0], **kept}
    return kept
