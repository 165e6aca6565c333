"""What a tool is: words for the model that reads them, arguments that are checked, an answer with a declared shape."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from pydantic import BaseModel, ConfigDict, ValidationError

from cloche.doors.mcp.conversation import Visit
from cloche.errors import ClocheError
from cloche.results.cleaning import clean

log = logging.getLogger("cloche.mcp")


class ToolArguments(BaseModel):
    """What a tool is called with; anything else is refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Answer(BaseModel):
    """What a tool tells programs, beside the text for the model; what is None is left out."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", exclude_none=True)


@dataclass(frozen=True)
class Tool:
    """A tool, and the function that does its work."""

    name: str
    title: str
    description: str
    arguments: type[ToolArguments]
    answer: type[Answer]
    work: Callable[[Visit, Any], Awaitable[types.CallToolResult]]
    reads: bool = False  # changes nothing
    destroys: bool = False  # what was there may be gone afterwards
    idempotent: bool = False

    def described(self) -> types.Tool:
        """What a client is told of it."""
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
                open_world_hint=False,  # a sandbox has no way out
            ),
        )

    async def call(self, visit: Visit, given: dict[str, Any] | None) -> types.CallToolResult:
        """Do it; whatever goes wrong is an answer that a model can act on."""
        try:
            return await self.work(visit, self.arguments.model_validate(given or {}))
        except ValidationError as problem:
            return failure("invalid", f"{self.name} cannot be called so. {_complaint(problem)}", "Mend the arguments.")
        except ClocheError as problem:
            hint = problem.hint
            if (after := getattr(problem, "retry_after", None)) is not None:
                hint = f"{hint} Try again in {after:.0f} seconds.".lstrip()
            return failure(problem.code, problem.message, hint)
        except Exception:
            log.exception("the tool %s failed by our own fault", self.name)
            return failure("failed", "Something went wrong on our side.", "Try again.")


def success(text: str, answer: Answer, more: Sequence[types.ContentBlock] = ()) -> types.CallToolResult:
    """What a tool came to: a text for the model, the same for programs, and perhaps pictures."""
    return types.CallToolResult(content=[said(text), *more], structured_content=answer.told())


def failure(kind: str, message: str, hint: str) -> types.CallToolResult:
    """Why a tool did nothing, and what to do about it."""
    text = f"[error] {kind}: {clean(message)}" + (f"\n{clean(hint)}" if hint else "")
    return types.CallToolResult(content=[said(text)], is_error=True)


def said(text: str) -> types.TextContent:
    """A text."""
    return types.TextContent(text=text)


def _complaint(problem: ValidationError) -> str:
    told = []
    for error in problem.errors(include_url=False, include_context=False, include_input=False)[:5]:
        place = ".".join(map(str, error["loc"]))
        told.append(f"{place}: {error['msg']}" if place else error["msg"])
    return "; ".join(told) + "."


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """JSON Schema as every client understands it: what may be left out is just not required."""
    schema: dict[str, Any] = _plainer(model.model_json_schema(mode="validation"))
    schema.pop("description", None)
    return schema


def _plainer(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [_plainer(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if names:  # of properties: a property may be called "title"
        return {name: _plainer(value) for name, value in schema.items()}
    kept = {name: _plainer(value, names=name in ("properties", "$defs")) for name, value in schema.items()}
    kept.pop("title", None)
    if "default" in kept and kept["default"] is None:
        del kept["default"]
        forms = [form for form in kept.pop("anyOf", ()) if form != {"type": "null"}]
        if len(forms) == 1:
            kept = {**forms[0], **kept}
    return kept
