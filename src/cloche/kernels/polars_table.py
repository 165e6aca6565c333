"""A table of polars, as `table_rows` reads it."""

from __future__ import annotations

from cloche.kernels import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class PolarsTable:
    """A frame or series of polars."""

    index: dict[str, Any] | None = None

    def __init__(self, value: Any) -> None:
        import polars

        self._polars = polars
        self.frame = value.clone() if hasattr(value, "columns") else value.to_frame()  # neither copies the values

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return int(self.frame.estimated_size())

    def column(self, number: int) -> Any:
        """Return a series."""
        return self.frame.to_series(number)

    def comparable(self, series: Any, value: str) -> Any:
        """Return a number or a time; None for a column of texts."""
        if series.dtype.is_numeric():
            return float(value)
        if not series.dtype.is_temporal():
            return None
        moment = self._polars.Series([value]).str.to_datetime(time_zone=getattr(series.dtype, "time_zone", None))
        return moment.cast(series.dtype)[0]

    def is_numeric(self, series: Any) -> bool:
        """Say whether the values are numbers or times."""
        return bool(series.dtype.is_numeric() or series.dtype.is_temporal())

    def text(self, series: Any) -> Any:
        """Return the series as texts in lower case."""
        return self._plain(series).cast(self._polars.String, strict=False).fill_null("").str.to_lowercase()

    def missing(self, series: Any) -> Any:
        """Return which values are missing."""
        return series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()

    def contains(self, texts: Any, part: str) -> Any:
        """Return which texts contain a part."""
        return texts.str.contains(part, literal=True)

    def where(self, mask: Any) -> Any:
        """Return the positions at which the mask is true."""
        return mask.fill_null(False).arg_true()

    def in_order(self, series: Any, positions: Any, descending: bool) -> Any:
        """Return the positions in the order of their values; missing values come last."""
        series = self._plain(series)
        if series.dtype.is_float():
            series = series.fill_nan(None)
        chosen = series if positions is None else series.gather(positions)
        # A sort of a series is not stable, and one by position as well is.
        rows = self._polars.DataFrame({"value": chosen}).with_row_index("row")
        order = rows.sort("value", "row", descending=[descending, False], nulls_last=True).to_series(0)
        return order if positions is None else positions.gather(order)

    def part(self, positions: Any, columns: range) -> Any:
        """Return these rows and columns as a frame."""
        frame = self.frame[:, columns.start : columns.stop]
        if isinstance(positions, range):
            return frame.slice(positions.start, len(positions))
        return frame[positions]

    def columns(self, part: Any) -> Sequence[tables.Column]:
        """Return the columns of a part."""
        return [tables.PolarsColumn(series) for series in part.get_columns()]

    def labels(self, _part: Any) -> list[Any]:
        """Return nothing: polars has no row labels."""
        return []

    def write(self, part: Any, separator: str, header: bool, _labels: bool) -> str:
        """Return a part as text."""
        plain = [self._plain(series) for series in part.get_columns()]
        return str(self._polars.DataFrame(plain).write_csv(separator=separator, include_header=header))

    def _plain(self, series: Any) -> Any:
        """Return lists, structures and objects as texts, which can be compared and written."""
        if not series.dtype.is_nested() and series.dtype != self._polars.Object:
            return series
        return self._polars.Series(series.name, [None if value is None else str(value) for value in series.to_list()])
