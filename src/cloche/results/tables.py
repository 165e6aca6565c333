"""Describes a table in few lines: its shape, columns, statistics and first rows (see cloche.kernels.tables)."""

from __future__ import annotations

from cloche.results.cleaning import harmless
from cloche.results.tokens import cut, fits
from cloche.results.values import as_list, dicts, line, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Table = dict[str, Any]

# How many columns and rows, and whether with statistics; the first that fits is taken.
_SIZES = ((50, 10, True), (50, 5, True), (20, 3, True), (20, 3, False), (10, 0, False), (0, 0, False))


def table_text(table: Table, limit: int) -> str:
    """Describe a table in at most `limit` tokens."""
    height, width = [short(size) for size in [*as_list(table.get("shape"))[:2], "?", "?"][:2]]
    head = f"[table] {height} rows × {width} columns"  # noqa: RUF001
    columns = [
        f"{line(column.get('name', ''), 60)} ({line(column.get('type', ''), 40)})"
        for column in dicts(table.get("columns"))
    ]
    statistics = [_statistics(entry) for entry in dicts(table.get("summary"))]
    seen = table.get("summary_rows")
    of = f" of the first {seen:,} rows" if isinstance(seen, int) and short(seen) != height else ""
    rows = _rows(table)
    for most, count, with_statistics in _SIZES:
        lines = [head, f"columns: {_enumerated(columns, most, width)}"] if most else [head]
        if with_statistics and statistics:
            lines.append(f"statistics{of}: {_enumerated(statistics, most, str(len(statistics)), '; ')}")
        if rows[:count]:
            lines += [f"first {len(rows[:count])} rows:", *rows[:count]]
        text = "\n".join(lines)
        if fits(text, limit):
            return text
    return cut(text, limit)


def _rows(table: Table) -> list[str]:
    index = as_list(table["index"].get("values")) if isinstance(table.get("index"), dict) else []
    rows = []
    for n, row in enumerate(as_list(table.get("rows"))[:20]):
        label = [", ".join(map(short, index[n])) if isinstance(index[n], list) else index[n]] if n < len(index) else []
        rows.append(harmless(" | ".join(short(cell) for cell in [*label, *as_list(row)][:50])))
    return rows


def _enumerated(items: list[str], most: int, total: str, by: str = ", ") -> str:
    if len(items) <= most and total in (str(len(items)), "?"):
        return by.join(items)
    return f"{by.join(items[:most])}{by}… ({total} in all)"


def _statistics(entry: dict[str, Any]) -> str:
    facts = [f"{key} {short(entry[key])}" for key in ("min", "max", "mean", "unique") if entry.get(key) is not None]
    if entry.get("top") is not None:
        facts.append(f"most often {short(entry['top'])} ({short(entry.get('top_count'))} times)")
    if entry.get("nulls"):
        facts.append(f"{short(entry['nulls'])} missing")
    return f"{line(entry.get('name', ''), 60)}: {', '.join(facts) or 'no values'}"
