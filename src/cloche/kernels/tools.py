"""`cloche.tools`: functions that the sandbox's owner offers, called from within.

A call goes out as an EVENT frame and comes back as an ANSWER.  Whoever waits for one reads the control for everybody
(`Channel.wait`); a call that is awaited lets its event loop watch the control instead.
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

LARGEST = 900_000  # bytes of a call's arguments


class ToolError(RuntimeError):
    """A tool did not answer with a value; the message is its own."""


ToolError.__module__ = "cloche"


class ToolCalls:
    """ToolCalls under way."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = count(1)
        self._takers: dict[int, Callable[[dict[str, Any]], None]] = {}  # by the call that they wait for
        self._watches: dict[AbstractEventLoop, int] = {}  # how many calls each loop awaits
        channel.on_answer = self._take

    def call(self, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tool and wait for what it answers."""
        answers: list[dict[str, Any]] = []
        number = self._send(tool, args, kwargs, answers.append)
        try:
            self._channel.wait(lambda: bool(answers), allocate_lock())
        finally:
            self._takers.pop(number, None)  # interrupted: an answer that still comes is nobody's
        return _value(answers[0] if answers else None)

    async def call_async(self, tool: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for code that awaits."""
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[str, Any]] = loop.create_future()

        def settle(answer: dict[str, Any]) -> None:
            if not future.done():
                future.set_result(answer)

        def take(answer: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(settle, answer)

        self._watches[loop] = self._watches.get(loop, 0) + 1
        self.watch(loop)
        number = self._send(tool, args, kwargs, take)
        try:
            return _value(await future)
        finally:
            self._takers.pop(number, None)
            self._watches[loop] -= 1
            if not self._watches[loop]:
                del self._watches[loop]
                loop.remove_reader(self._channel.fileno())

    def watch(self, loop: AbstractEventLoop) -> None:
        """Let the loop look for answers, if it awaits any."""
        if loop in self._watches:
            loop.add_reader(self._channel.fileno(), self._channel.read_available)

    def _send(self, tool: str, args: Any, kwargs: Any, taker: Callable[[dict[str, Any]], None]) -> int:
        number = next(self._numbers)
        try:
            payload = dumps({"call": number, "tool": tool, "args": list(args), "kwargs": kwargs}).encode()
        except (TypeError, RecursionError) as problem:
            raise TypeError(f"tools take JSON values (texts, numbers, lists, dicts …): {problem}") from None
        if len(payload) > LARGEST:
            raise ValueError(f"the arguments of a tool take at most {LARGEST:,} bytes as JSON, not {len(payload):,}")
        self._takers[number] = taker
        self._channel.send(frames.EVENT, payload)
        return number

    def _take(self, payload: bytes) -> None:
        answer = loads(payload.decode())
        taker = self._takers.pop(answer.get("call"), None)
        if taker is not None:
            taker(answer)


def install(channel: Channel, names: list[str], shell: Any) -> ToolCalls | None:
    """Make a module `cloche` that has these tools; without any there is no such module."""
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
        raise AttributeError(f"there is no tool {name!r}; there are: {offered}")


def _function(tool: str, call: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return call(tool, args, kwargs)

    function.__name__ = function.__qualname__ = tool
    function.__module__ = "cloche.tools"
    function.__doc__ = f"Call the tool {tool!r} of this sandbox's owner."
    return function


def _value(answer: dict[str, Any] | None) -> Any:
    if answer is None:
        raise ToolError("the sandbox's agent is gone")
    problem = answer.get("error")
    if problem is not None:
        name, message = problem.get("name"), problem.get("message", "")
        raise ToolError(f"{name}: {message}" if name and name != "ToolError" else message)
    return answer.get("value")
