"""The verbs about tables: rows of those that a session displayed, and of those in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from cloche.engine import tables
from cloche.policy.caller import Caller
from cloche.sandbox.checks import checked_path
from cloche.service.verbs import verb

if TYPE_CHECKING:
    from cloche.service.lifecycle import Lifecycle


@dataclass(frozen=True, slots=True)
class Window:
    """Which rows of a table, in which order and form.  A column is a number from 0; row labels are -1, -2 …"""

    offset: int = 0
    limit: int = 100
    columns: tuple[int, int] | None = None  # the first one, and the one after the last
    filters: Sequence[dict[str, Any]] = field(default_factory=tuple)  # column, how, value
    search: str = ""  # in any column
    sort: dict[str, Any] | None = None  # column, descending
    form: Literal["rows", "csv", "tsv"] = "rows"
    header: bool = True  # names of the columns, if the form is a text
    labels: bool = True  # labels of the rows, if the form is a text

    def request(self) -> dict[str, Any]:
        """Return the window as the sandbox's agent receives it."""
        return {
            "offset": self.offset,
            "limit": self.limit,
            "columns": None if self.columns is None else list(self.columns),
            "filters": list(self.filters),
            "search": self.search,
            "sort": self.sort,
            "form": self.form,
            "header": self.header,
            "labels": self.labels,
        }


class Tables:
    """Reads rows of tables inside a sandbox."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    @verb("run")
    async def rows(
        self, caller: Caller, sandbox: str, table: str, window: Window, *, context: str | None = None
    ) -> dict[str, Any]:
        """Return rows of a table that a session displayed."""
        live = await self._lifecycle.find(caller, sandbox)
        async with live.used(saves=False) as box:
            where = box.contexts.default("python") if context is None else box.contexts.get(context)
            return await tables.rows(box, {"table": table, "context": where.id, **window.request()})

    @verb("run", starts="kernel")
    async def file_rows(
        self, caller: Caller, sandbox: str, path: str, window: Window, *, sheet: str | None = None
    ) -> dict[str, Any]:
        """Return rows of the table in a file.  A process inside the sandbox reads it."""
        live = await self._lifecycle.find_for_work(caller, sandbox, "tables.file_rows", path=path)
        async with live.used(saves=False) as box:
            return await tables.rows(box, {"path": checked_path(path), "sheet": sheet, **window.request()})
