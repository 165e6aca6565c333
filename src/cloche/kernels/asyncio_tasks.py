"""Lets a cell start asyncio tasks without awaiting anything.

A notebook always has a running loop, so `create_task` works anywhere there.  Here a loop runs only in cells that await,
and between cells, so that `asyncio.run` works as well.  The functions that start tasks are patched to use that loop.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def patch(module: Any) -> None:
    """Patch asyncio."""
    import threading
    from functools import wraps

    from IPython.core.getipython import get_ipython

    current, create, ensure = module.get_event_loop, module.create_task, module.ensure_future

    def is_in_a_cell() -> bool:
        """Say whether this is a cell's main thread without a running loop, and not a child of the kernel."""
        return (
            module._get_running_loop() is None
            and threading.current_thread() is threading.main_thread()
            and get_ipython().send is not None
        )

    @wraps(current)
    def get_event_loop() -> Any:
        if not is_in_a_cell():
            return current()
        shell = get_ipython()
        try:
            loop = current()
        except RuntimeError:  # no loop exists yet, or asyncio.run has ended
            loop = shell.own_loop()
            module.set_event_loop(loop)
        if shell.loop is None or shell.loop.is_closed():
            shell.loop = loop  # the loop that the code's tasks go to
        return loop

    @wraps(create)
    def create_task(coro: Any, **named: Any) -> Any:
        return get_event_loop().create_task(coro, **named) if is_in_a_cell() else create(coro, **named)

    @wraps(ensure)
    def ensure_future(coro_or_future: Any, *, loop: Any = None) -> Any:
        if loop is None and not module.isfuture(coro_or_future) and is_in_a_cell():
            loop = get_event_loop()
        return ensure(coro_or_future, loop=loop)

    for place in (module, module.events, module.tasks):
        for function in (get_event_loop, create_task, ensure_future):
            if hasattr(place, function.__name__):
                setattr(place, function.__name__, function)
