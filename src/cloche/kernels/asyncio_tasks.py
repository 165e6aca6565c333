"""Tasks of asyncio that a cell starts where nothing is awaited.

In a notebook a loop always runs, so `create_task` works anywhere there; here one runs only in cells that await, and
between cells, so that `asyncio.run` works as well.  What starts tasks is told of that loop.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def patch(module: Any) -> None:
    """Tell asyncio."""
    import threading
    from functools import wraps

    from IPython.core.getipython import get_ipython

    current, create, ensure = module.get_event_loop, module.create_task, module.ensure_future

    def is_in_a_cell() -> bool:
        """Of the kernel, and of no thread or child of it; and no loop runs."""
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
        except RuntimeError:  # none was made yet, or asyncio.run has ended
            loop = shell.own_loop()
            module.set_event_loop(loop)
        if shell.loop is None or shell.loop.is_closed():
            shell.loop = loop  # the one on which the code puts its tasks
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
        for ours in (get_event_loop, create_task, ensure_future):
            if hasattr(place, ours.__name__):
                setattr(place, ours.__name__, ours)
