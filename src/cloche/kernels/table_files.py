"""Reads tables from files: CSV, TSV, Parquet, Excel and JSON.

Runs in a kernel of its own, which the agent starts for this and ends when it takes too long.  It bounds its memory by
what the sandbox has left, so that a file that grows when it is read ends this process at most, and no session.
"""

from __future__ import annotations

import os
import stat

from cloche.kernels.pandas_table import PandasTable
from cloche.kernels.table_rows import Problem, Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FILES = 3  # that are kept in memory
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LEAST_ROOM = 64 << 20
_SHARE = 0.7  # of the memory that is left
_SHEETS = 100
_SAMPLE = 64 << 10
_NO_PANDAS = (
    "Tables are read with pandas, which this sandbox does not have.",
    "Install the full environment with `cloche setup`, or pandas in this sandbox with `pip install pandas`.",
)

_read: dict[tuple[str, str | None], tuple[tuple[int, int], Rows, dict[str, Any]]] = {}


def rows(path: str, sheet: str | None) -> tuple[Rows, dict[str, Any]]:
    """Return the rows of a file, and facts about it; reads it again if it has changed."""
    try:
        status = os.stat(path)
    except OSError as problem:
        raise Problem("missing", f"{path}: {problem.strerror}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise Problem("invalid", "Only regular files are read as tables.")
    version = status.st_mtime_ns, status.st_size
    known = _read.pop((path, sheet), None)
    if known is None or known[0] != version:
        known = None
        while len(_read) >= MAX_FILES:
            del _read[next(iter(_read))]
        frame, facts = _frame(path, sheet, status.st_size)
        known = version, Rows(PandasTable(frame)), {**facts, "version": f"{version[0]:x}-{version[1]:x}"}
    _read[path, sheet] = known
    return known[1], known[2]


def _frame(path: str, sheet: str | None, size: int) -> tuple[Any, dict[str, Any]]:
    try:
        import pandas
    except ImportError:
        raise Problem("library", *_NO_PANDAS) from None
    ending = path.rpartition(".")[2].lower()
    room = _bound_memory()
    try:
        if ending in ("csv", "tsv", "tab"):
            _check_size(size * 2, room)
            return _csv(pandas, path, ending)
        if ending in ("parquet", "pq"):
            return _parquet(path, room), {}
        if ending in ("xlsx", "xlsm", "xls"):
            _check_size(size * 10, room)
            return _excel(pandas, path, sheet)
        if ending in ("json", "jsonl", "ndjson"):
            _check_size(size * 6, room)
            return _json(pandas, path, ending != "json"), {}
    except (Problem, KeyboardInterrupt):
        raise
    except MemoryError:
        raise _too_large() from None
    except ImportError as problem:
        library = problem.name or "a library"
        message = f"Reading this file needs {library}, which this sandbox does not have."
        raise Problem("library", message, f"Install it in this sandbox: `pip install {library}`.") from None
    except Exception as problem:
        raise Problem(
            "invalid", f"This file cannot be read as a table: {str(problem)[:300] or type(problem).__name__}"
        ) from None
    raise Problem("invalid", f"Files that end in .{ending[:20]} are not read as tables.")


def _csv(pandas: Any, path: str, ending: str) -> tuple[Any, dict[str, Any]]:
    separator = "," if ending == "csv" else "\t"
    with open(path, "rb") as file:
        sample = file.read(_SAMPLE)
    if ending == "csv":
        first = sample.partition(b"\n")[0].decode("utf-8", "replace")
        separator = max(",;\t|", key=first.count)
    options = {"sep": separator, "low_memory": False, "encoding_errors": "replace"}
    try:
        return pandas.read_csv(path, **options), {}
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame(), {}
    except pandas.errors.ParserError:
        kept = pandas.read_csv(path, on_bad_lines="skip", **options)
        return kept, {"note": "Lines with more values than the first line has are left out."}


def _parquet(path: str, room: int) -> Any:
    import pyarrow
    from pyarrow import parquet

    # The other allocators reserve more address space than they use, and the bound counts that.
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    file = parquet.ParquetFile(path)
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    _check_size(2 * sum(group.total_byte_size for group in groups), room)
    _check_size(8 * file.metadata.num_rows * file.metadata.num_columns, room)
    return file.read(use_threads=False).to_pandas(use_threads=False)


def _excel(pandas: Any, path: str, sheet: str | None) -> tuple[Any, dict[str, Any]]:
    with pandas.ExcelFile(path) as book:
        names = [str(name) for name in book.sheet_names][:_SHEETS]
        if not names:
            raise Problem("invalid", "This workbook has no sheet with cells.")
        if sheet is not None and sheet not in names:
            raise Problem("invalid", f"The workbook has no sheet named {sheet[:100]}.")
        chosen = sheet or names[0]
        return book.parse(chosen), {"sheets": [name[:100] for name in names], "sheet": chosen[:100]}


def _json(pandas: Any, path: str, is_lines: bool) -> Any:
    from json import loads

    with open(path, encoding="utf-8-sig") as file:
        values = [loads(line) for line in file if line.strip()] if is_lines else loads(file.read())
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise Problem(
            "invalid", "This JSON is not a list of objects, so it cannot be shown as a table.", "Look at it as text."
        )
    return pandas.DataFrame.from_records(values)


def _bound_memory() -> int:
    """Let this process take a share of the memory that the sandbox has left, and return how much that is."""
    from resource import RLIMIT_DATA, getrlimit, setrlimit

    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = int(file.read())
    except (OSError, ValueError):
        limit = 512 << 20
    room = max(int((limit - _used()) * _SHARE), _LEAST_ROOM)
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            own = int(file.read().split()[5]) * _PAGE  # data and stack
        setrlimit(RLIMIT_DATA, (own + room, getrlimit(RLIMIT_DATA)[1]))
    except (OSError, ValueError):
        pass  # the sandbox's own limit remains
    return room


def _used() -> int:
    """Return the memory of all processes in the sandbox that no file backs."""
    used = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/statm", encoding="ascii") as file:
                    _, resident, shared, *_ = map(int, file.read().split())
                used += (resident - shared) * _PAGE
            except (OSError, ValueError):
                continue
    return used


def _check_size(needed: int, room: int) -> None:
    if needed > room:
        raise _too_large()


def _too_large() -> Problem:
    return Problem(
        "memory",
        "This file needs more memory to be read as a table than the sandbox has left.",
        "Give the sandbox more memory, or read a part of the file with code.",
    )
