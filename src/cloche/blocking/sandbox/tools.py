# Generated from src/cloche/sandbox/tools.py by scripts/blocking.py: edit that file instead.
"""Tools: functions of the sandbox's owner that code inside may call; their arguments and answers are JSON values."""

from __future__ import annotations

from _collections_abc import Callable, Mapping
from _contextvars import ContextVar
from time import monotonic

from cloche.blocking.io.tasks import call_function
from cloche.errors import InvalidRun
from cloche.model.result import ToolCall
from cloche.wire import frames
from cloche.wire.light_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMEOUT_S = 60.0  # for one call
SCORE_S = 60.0  # for a function of the owner to score one candidate
MAX_ANSWER = frames.MAX_PAYLOAD - 1024  # bytes of JSON

calling: ContextVar[tuple[object, ...]] = ContextVar("calling", default=())  # the cells on whose behalf tools run now


class Tools:
    """The functions that a sandbox's owner offers.  Code inside cannot call any others."""

    def __init__(self, tools: Mapping[str, Callable[..., Any]] | None) -> None:
        if tools is not None and not isinstance(tools, Mapping):
            raise InvalidRun(f"tools is a mapping of names to functions, not {tools!r:.100}.")
        self._tools = dict(tools or {})
        for name, function in self._tools.items():
            if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or name == "aio":
                raise InvalidRun(f"{name!r:.100} is no name for a tool.", hint="Choose a name that Python could call.")
            if not callable(function):
                raise InvalidRun(f"The tool {name} is not a function.")

    def names(self) -> list[str]:
        """The names of all tools."""
        return sorted(self._tools)

    def call(self, request: dict[str, Any]) -> tuple[ToolCall | None, bytes]:
        """Carry out a call; return a record of it, and the answer to send, in JSON."""
        number, name, args, kwargs = (
            request.get("call"),
            request.get("tool"),
            request.get("args"),
            request.get("kwargs"),
        )
        if not isinstance(name, str) or not isinstance(args, list) or not isinstance(kwargs, dict):
            return None, refusal(number, "TypeError", "this is no call of a tool")
        function = self._tools.get(name)
        if function is None:
            return None, refusal(number, "AttributeError", f"there is no tool {name[:100]}")
        begin = monotonic()
        value: Any = None
        error: str | None = None
        try:
            value = call_function(function, args, kwargs, TIMEOUT_S)
            answer = dumps({"call": number, "value": value}).encode()
            if len(answer) > MAX_ANSWER:
                raise ValueError(f"the answer of {name} is larger than {MAX_ANSWER >> 10} kB")
        except (
            Exception
        ) as problem:  # the owner's function failed: the code inside gets an exception, and may handle it
            if type(problem) is TimeoutError and monotonic() - begin >= TIMEOUT_S:
                problem = TimeoutError(f"{name} did not answer within {TIMEOUT_S:g} seconds")
            error = f"{type(problem).__name__}: {problem}"[:2000]
            answer = refusal(number, type(problem).__name__, str(problem)[:2000])
        record = ToolCall(name, args, kwargs, None if error else value, error, monotonic() - begin)
        return record, answer


def refusal(number: Any, name: str, message: str) -> bytes:
    """The answer to a call that was not carried out."""
    call = number if isinstance(number, int) else 0
    return dumps({"call": call, "error": {"name": name, "message": message}}).encode()
