"""Rows of tables: those that a session displayed, and those in files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from cloche.doors.http.dependencies import Json, SandboxId, TheCaller, TheService
from cloche.doors.http.problems import ERROR_RESPONSES
from cloche.doors.routing.routes import Operations
from cloche.service.tables import Window

operations = Operations("/v1/sandboxes/{sandbox_id}", responses=ERROR_RESPONSES, tag="tables")

Column = Annotated[int, Field(ge=-100, le=1_000_000)]
Place = Annotated[int, Field(ge=0, le=1_000_000)]


class RowFilter(BaseModel):
    """The rows whose value in one column fits; texts are compared without regard to upper and lower case."""

    model_config = ConfigDict(extra="forbid")
    column: Column
    how: Literal["contains", "=", "!=", "<", "<=", ">", ">=", "missing", "present"]
    value: str = Field(default="", max_length=1000)


class RowOrder(BaseModel):
    """The column to sort by; missing values come last."""

    model_config = ConfigDict(extra="forbid")
    column: Column
    descending: bool = False


class RowsBody(BaseModel):
    """Some rows of one table: of a displayed `table` and the `context` it was displayed in, or of the file at `path`.

    Columns are numbered from 0; -1 is the first level of the row labels.
    """

    model_config = ConfigDict(extra="forbid")
    table: str | None = Field(default=None, max_length=100)
    context: str | None = Field(default=None, max_length=300)
    path: str | None = Field(default=None, max_length=4096)
    sheet: str | None = Field(default=None, max_length=100)
    offset: int = Field(default=0, ge=0, le=1 << 40)
    limit: int = Field(default=100, ge=0, le=20_000)
    columns: tuple[Place, Place] | None = None
    filters: list[RowFilter] = Field(default_factory=list, max_length=50)
    search: str = Field(default="", max_length=1000)
    sort: RowOrder | None = None
    form: Literal["rows", "csv", "tsv"] = "rows"
    header: bool = True
    labels: bool = True

    @model_validator(mode="after")
    def _names_one_table(self) -> RowsBody:
        if (self.table is None) == (self.path is None):
            raise ValueError("give either a table or a path")
        return self


class TableColumn(BaseModel):
    """The name and the type of a column."""

    name: str
    type: str


class RowLabels(BaseModel):
    """The labels of the rows; a label of several levels is a list."""

    names: list[str | None]
    type: str
    values: list[str | float | bool | list[str | float | bool | None] | None]


class RowsAnswer(BaseModel):
    """Rows from `offset` on; there may be fewer than asked for, because an answer has a bounded size.

    `matched` rows pass the filters. `rows` for the form "rows", otherwise `text`; `count` is how many rows it has.
    `numbers` are the places of the rows in the table as it was made, from 0.
    """

    shape: tuple[int, int]
    matched: int
    offset: int
    count: int
    columns: list[TableColumn] = Field(default_factory=list)
    first_column: int = 0
    index: RowLabels | None = None
    numbers: list[int] = Field(default_factory=list)
    rows: list[list[str | float | bool | None]] = Field(default_factory=list)
    text: str = ""
    version: str = ""
    sheets: list[str] = Field(default_factory=list)
    sheet: str = ""
    note: str = ""


@operations.post("/tables/rows", scope="run", name="read_rows", body="json", responses={200: {"model": RowsAnswer}})
async def rows(sandbox_id: SandboxId, body: RowsBody, service: TheService, caller: TheCaller) -> Response:
    """Read rows of a table, sorted and filtered over all of it."""
    window = Window(
        offset=body.offset,
        limit=body.limit,
        columns=body.columns,
        filters=[one.model_dump() for one in body.filters],
        search=body.search,
        sort=None if body.sort is None else body.sort.model_dump(),
        form=body.form,
        header=body.header,
        labels=body.labels,
    )
    if body.path is not None:
        return Json(await service.tables.file_rows(caller, sandbox_id, body.path, window, sheet=body.sheet))
    found = await service.tables.rows(caller, sandbox_id, body.table or "", window, context=body.context)
    return Json(found)
