"""`cloche.tools`: functions that the sandbox's owner offers to the code inside.

A call leaves as an EVENT frame and returns as an ANSWER.  A thread that waits for its answer reads the control for all
threads (`Channel.wait`); for an awaited call, the event loop watches the control instead.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from itertools import count
from types import ModuleType

from cloche.wire import frames
from cloche.wire.light_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from typing import Any

    from cloche.kernels.channel import Channel

MAX_ARGUMENTS = 900_000  # bytes of a call's arguments


class ToolError(RuntimeError):
    """A tool failed; the message is the tool's own."""


ToolError.__module__ = "cloche"


class ToolCalls:
    """The pending calls."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = count(1)
        self._callbacks: dict[int, Callable[[dict[str, Any]], None]] = {}  # by number of the call
        self._awaited: dict[AbstractEventLoop, int] = {}  # number of awaited calls per loop
        channel.on_answer = self._take

    def call(self, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tool and wait for its answer."""
        answers: list[dict[str, Any]] = []
        number = self._send(tool, args, kwargs, answers.append)
        try:
            self._channel.wait(lambda: bool(answers), allocate_lock())
        finally:
            self._callbacks.pop(number, None)  # after an interrupt, a late answer is ignored
        return _value(answers[0] if answers else None)

    async def call_async(self, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tool from code that awaits."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()

        def settle(answer: dict[str, Any]) -> None:
            if not future.done():
                future.set_result(answer)

        def take(answer: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(settle, answer)

        self._awaited[loop] = self._awaited.get(loop, 0) + 1
        self.watch(loop)
        number = self._send(tool, args, kwargs, take)
        try:
            return _value(await future)
        finally:
            self._callbacks.pop(number, None)
            self._awaited[loop] -= 1
            if not self._awaited[loop]:
                del self._awaited[loop]
                loop.remove_reader(self._channel.fileno())

    def watch(self, loop: AbstractEventLoop) -> None:
        """Let a loop that awaits calls watch for answers."""
        if loop in self._awaited:
            loop.add_reader(self._channel.fileno(), self._channel.read_available)

    def _send(self, tool: str, args: Any, kwargs: Any, callback: Callable[[dict[str, Any]], None]) -> int:
        number = next(self._numbers)
        try:
            payload = dumps({"call": number, "tool": tool, "args": list(args), "kwargs": kwargs}).encode()
        except (TypeError, RecursionError) as problem:
            raise TypeError(f"tools take JSON values (texts, numbers, lists, dicts …): {problem}") from None
        if len(payload) > MAX_ARGUMENTS:
            raise ValueError(
                f"the arguments of a tool take at most {MAX_ARGUMENTS:,} bytes as JSON, not {len(payload):,}"
            )
        self._callbacks[number] = callback
        self._channel.send(frames.EVENT, payload)
        return number

    def _take(self, payload: bytes) -> None:
        answer = loads(payload.decode())
        callback = self._callbacks.pop(answer.get("call"), None)
        if callback is not None:
            callback(answer)


def install(channel: Channel, names: list[str], shell: Any) -> ToolCalls | None:
    """Create a module `cloche` with these tools; without tools there is no such module."""
    if not names:
        return None
    calls = ToolCalls(channel)
    module, tools = ModuleType("cloche"), _Tools("cloche.tools", calls.call, names)
    aio = _Tools("cloche.tools.aio", calls.call_async, names)
    vars(module).update(tools=tools, ToolError=ToolError, __path__=[])
    vars(tools).update(aio=aio, __path__=[])
    sys.modules.update({"cloche": module, "cloche.tools": tools, "cloche.tools.aio": aio})
    for namespace in (shell.user_ns, shell.user_ns_hidden):
        namespace["cloche"] = module
    return calls


class _Tools(ModuleType):
    def __init__(self, name: str, call: Any, names: list[str]) -> None:
        super().__init__(name, "Functions that the owner of this sandbox offers: " + ", ".join(names))
        vars(self).update({tool: _function(tool, call) for tool in names}, __all__=names)

    def __getattr__(self, name: str) -> Any:
        offered = ", ".join(vars(self)["__all__"])
        raise AttributeError(f"there is no tool named {name!r}; this sandbox offers: {offered}")


def _function(tool: str, call: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return call(tool, args, kwargs)

    function.__name__ = function.__qualname__ = tool
    function.__module__ = "cloche.tools"
    function.__doc__ = f"Call the tool {tool!r} of this sandbox's owner."
    return function


def _value(answer: dict[str, Any] | None) -> Any:
    if answer is None:
        raise ToolError("the sandbox is ending, so the tool's answer cannot arrive")
    problem = answer.get("error")
    if problem is not None:
        name, message = problem.get("name"), problem.get("message", "")
        raise ToolError(f"{name}: {message}" if name and name != "ToolError" else message)
    return answer.get("value")
