"""Turns IPython's displays into messages.

IPython's classes exist only after its import, so our changes are mixins here, and `ipython_shell.build` combines them.
"""

from __future__ import annotations

import builtins
import sys

from cloche.kernels import charts, kept_tables, tracebacks
from cloche.kernels.display_limits import PLAIN_CHARACTERS, as_json, bounded, cut
from cloche.kernels.library_patches import forget_figure
from cloche.model.result import CHART, TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DISPLAYS = 500  # per cell
UPDATES = 10_000

_SIMPLE = frozenset((int, float, bool, str, bytes, complex))


class PublisherMixin:
    """Sends what `display` shows."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    send: Callable[..., None] | None = None  # sends a message to the agent; None in a process forked from the kernel

    def begin(self) -> None:
        """Start a new cell: nothing is displayed yet."""
        self._displays = self._updates = 0
        self._clear_pending = False  # clear before the next display
        self.next_is_result = False  # the next display is the value of the cell's last expression

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        _source: Any = None,
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        """Show an object's forms."""
        if self.send is None:
            print(data.get("text/plain", ""))
            return
        display_id = (transient or {}).get("display_id")
        message: dict[str, Any] = {"type": "display", "display_id": display_id, "update": bool(update)}
        if self.next_is_result and not update and display_id is None:
            self.next_is_result = False
            message = {"type": "result", "count": self.shell.execution_count - 1}
        self._show(message, data, metadata)

    def show_result(self, data: dict[str, Any], metadata: dict[str, Any], count: int) -> None:
        """Show the value of the last expression."""
        if self.send is None:
            print(data.get("text/plain", ""))
        else:
            self._show({"type": "result", "count": count}, data, metadata)

    def clear_output(self, wait: bool = False) -> None:
        """Clear the displays so far: at once, or before the next display."""
        self._clear_pending = True
        if not wait:
            self._clear()

    def _show(self, message: dict[str, Any], data: dict[str, Any], metadata: dict[str, Any] | None) -> None:
        if self._is_over(message.get("update", False)):
            return
        self.flush_streams()
        self._clear()
        message["data"], message["metadata"] = bounded(data, metadata)
        assert self.send is not None
        # A result is followed by the cell's end, and is sent together with it.
        self.send(message, flush=message["type"] != "result")

    def _clear(self) -> None:
        if self._clear_pending and self.send is not None:
            self._clear_pending = False
            self._displays = 0
            self.send({"type": "clear"})

    def _is_over(self, update: bool) -> bool:
        if update:
            self._updates += 1
            return self._updates > UPDATES
        self._displays += 1
        if self._displays == DISPLAYS + 1:
            print(f"Only the first {DISPLAYS} displays of a cell are kept.", file=sys.stderr)
        return self._displays > DISPLAYS

    def _setup_execution_tracking(self) -> None:
        """Disable IPython's record of outputs, which nobody reads here and which grows."""


class DisplayHookMixin:
    """Shows the value of a cell's last expression (`sys.displayhook`)."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    exec_result: Any = None  # not a trait: traits validate and notify on each assignment

    _: Any
    __: Any
    ___: Any

    def __call__(self, result: Any = None) -> None:
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        shell = self.shell
        formatter, publisher = shell.display_formatter, shell.display_pub
        publisher.next_is_result = formatter.raises = True
        try:
            data, metadata = formatter.format(result)
        finally:
            publisher.next_is_result = formatter.raises = False
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if data:
            publisher.show_result(data, metadata, self.prompt_count)
            if CHART in data:
                forget_figure(result)

    def quiet(self) -> bool:
        """Say whether the cell ends in a semicolon."""
        cell: str = self.shell.history_manager.input_hist_parsed[-1].rstrip()  # not `_ih`, which may be deleted
        if "#" in cell[cell.rfind("\n") + 1 :]:  # perhaps a comment, which may follow or contain the semicolon
            return ";" in cell and bool(self.semicolon_at_end_of_expression(cell))
        return cell.endswith(";")

    def update_user_ns(self, result: Any) -> None:
        """Set `_`, `__`, `___`, `_3` and `Out[3]`."""
        names, hidden = self.shell.user_ns, self.shell.user_ns_hidden
        outputs = names.get("_oh")
        if outputs is None or result is outputs:
            return
        if len(outputs) >= self.cache_size:
            self.cull_cache()
        # A name that the code assigned keeps its value until the code deletes it; `gettext.install` puts `_` into
        # builtins.
        is_unassigned = not hasattr(builtins, "_") and all(
            names[name] is hidden.get(name, "") for name in ("_", "__", "___") if name in names
        )
        self.___, self.__, self._ = self.__, self._, result
        count = self.prompt_count
        new = {f"_{count}": result}
        if is_unassigned:
            new.update({"_": self._, "__": self.__, "___": self.___})
        names.update(new)
        hidden.update(new)
        outputs[count] = result

    def cull_cache(self) -> None:
        """Drop the oldest outputs, without IPython's warning."""
        outputs = self.shell.user_ns["_oh"]
        for count in sorted(outputs)[: max(2, len(outputs) // 5)]:
            del outputs[count]
            self.shell.user_ns.pop(f"_{count}", None)
            self.shell.user_ns_hidden.pop(f"_{count}", None)


class FormatterMixin:
    """Makes the forms of an object."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    raises = False  # raise if an object has no text at all, because its `__repr__` fails
    problems: list[BaseException] = []  # noqa: RUF012  (that methods of the object raised; set for each)

    def format(self, obj: Any, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return every form of an object, including ours."""
        kind = type(obj)
        if kind in _SIMPLE and not include and not exclude and self._has_no_printer(kind):
            try:
                return {"text/plain": cut(repr(obj), PLAIN_CHARACTERS)}, {}
            except ValueError:  # an int with too many digits: the long way reports it
                pass
        before, self.problems = self.problems, []
        raises, self.raises = self.raises, False  # not for nested displays
        try:
            data, metadata = super().format(obj, include, exclude)  # type: ignore[misc]
        finally:
            problems, self.problems = self.problems, before
        if problems and raises and "text/plain" not in data:
            raise problems[0]  # the cell fails, as in any Python
        for problem in problems:
            print(tracebacks.plain_text(self.parent, problem), file=sys.stderr)
        if data:
            for mime, describe in _descriptions(obj):
                if (include and mime not in include) or (exclude and mime in exclude) or mime in data:
                    continue
                try:
                    value = describe(obj)
                except Exception:
                    continue
                if value is not None:
                    data[mime] = value
        return data, metadata

    def _has_no_printer(self, kind: type) -> bool:
        return not any(
            kind in formatter.type_printers for mime, formatter in self.formatters.items() if mime != "text/plain"
        ) and (kind is not float or not self.formatters["text/plain"].float_precision)


def _descriptions(obj: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    kind = type(obj)
    if kind is dict or kind is list:
        return [("application/json", as_json)]
    for base in kind.__mro__:
        library = (base.__module__ or "").partition(".")[0]
        if base.__name__ == "Figure" and library == "matplotlib":
            return [(CHART, charts.describe)]
        if base.__name__ in ("DataFrame", "Series") and library in ("pandas", "polars"):
            return [(TABLE, kept_tables.describe)]
    return []
