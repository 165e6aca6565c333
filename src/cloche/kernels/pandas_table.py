"""A table of pandas, as `table_rows` reads it."""

from __future__ import annotations

import sys

from cloche.kernels import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_PLAIN = 1e-4, 1e10  # fractions between these are written alike by Python and by Arrow, which is faster


class PandasTable:
    """A frame or series of pandas."""

    def __init__(self, value: Any) -> None:
        import pandas

        self._pandas = pandas
        # Without a copy of the values: pandas copies them once either of the two is changed.
        self.frame = value.copy(deep=False) if hasattr(value, "columns") else value.to_frame(name=value.name)
        self.index: dict[str, Any] | None = None if tables.only_counts(value.index) else tables.index_facts(value.index)

    @property
    def size(self) -> int:
        """The bytes of the values; texts and other objects count as pointers."""
        return int(self.frame.memory_usage(deep=False).sum())

    def column(self, number: int) -> Any:
        """Return a series whose labels are its positions."""
        if number >= 0:
            return self.frame.iloc[:, number].reset_index(drop=True)
        return self._pandas.Series(self.frame.index.get_level_values(-number - 1)).reset_index(drop=True)

    def comparable(self, series: Any, value: str) -> Any:
        """Return a number or a time; None for a column of texts."""
        kind = getattr(series.dtype, "kind", "O")
        if str(series.dtype) == "category":
            return None
        if kind in "iuf":
            return float(value)
        if kind == "m":
            return self._pandas.Timedelta(value)
        if kind != "M":
            return None
        moment = self._pandas.Timestamp(value)
        zone = getattr(series.dtype, "tz", None)
        return moment if zone is None or moment.tz is not None else moment.tz_localize(zone)

    def is_numeric(self, series: Any) -> bool:
        """Say whether the values are numbers or times."""
        return getattr(series.dtype, "kind", "O") in "iufM" and str(series.dtype) != "category"

    def text(self, series: Any) -> Any:
        """Return the series as texts in lower case."""
        if str(series.dtype) == "str":
            return series.str.lower()
        # pandas itself takes up to ten times as long to write 100,000 numbers or times as texts.
        kind = getattr(series.dtype, "kind", "O")
        has_arrow = "pyarrow" in sys.modules and int(self._pandas.__version__.partition(".")[0]) >= 3
        if has_arrow and str(series.dtype) in ("float64", "int64"):
            return self._numbers(series)
        texts = _moments(series) if kind == "M" else map(str, series.tolist())
        known = series.notna().tolist()
        lower = [text.lower() if is_known else "" for text, is_known in zip(texts, known, strict=True)]
        return self._pandas.Series(lower, index=series.index, dtype=object)

    def _numbers(self, series: Any) -> Any:
        import pyarrow
        from numpy import trunc
        from pyarrow.compute import cast

        values = series.to_numpy()
        texts = self._pandas.Series(cast(pyarrow.array(values, from_pandas=True), pyarrow.string()), dtype="str")
        if values.dtype.kind == "f":
            sizes = abs(values)
            is_alike = (sizes >= _PLAIN[0]) & (sizes < _PLAIN[1]) & (trunc(values) != values)
            others = ~is_alike & (values == values)
            if others.any():
                texts[others] = [str(value) for value in values[others].tolist()]
        return texts.set_axis(series.index)

    def missing(self, series: Any) -> Any:
        """Return which values are missing."""
        return series.isna()

    def contains(self, texts: Any, part: str) -> Any:
        """Return which texts contain a part."""
        if str(texts.dtype) == "str":
            return texts.str.contains(part, regex=False, na=False)
        return self._pandas.Series([part in text for text in texts.tolist()], index=texts.index, dtype=bool)

    def where(self, mask: Any) -> Any:
        """Return the positions at which the mask is true."""
        return mask.fillna(False).astype(bool).to_numpy().nonzero()[0]

    def in_order(self, series: Any, positions: Any, descending: bool) -> Any:
        """Return the positions in the order of their values; missing values come last."""
        chosen = series if positions is None else series.iloc[positions]
        try:
            ordered = chosen.sort_values(ascending=not descending, kind="stable", na_position="last")
        except TypeError:  # values of several types have no order, but their texts have
            texts = self.text(chosen).where(chosen.notna())
            ordered = texts.sort_values(ascending=not descending, kind="stable", na_position="last")
        return ordered.index.to_numpy()

    def part(self, positions: Any, columns: range) -> Any:
        """Return these rows and columns as a frame."""
        rows = slice(positions.start, positions.stop) if isinstance(positions, range) else positions
        return self.frame.iloc[rows, columns.start : columns.stop]

    def columns(self, part: Any) -> Sequence[tables.Column]:
        """Return the columns of a part."""
        return [tables.PandasColumn(part, number) for number in range(part.shape[1])]

    def labels(self, part: Any) -> list[Any]:
        """Return the row labels of a part."""
        return list(part.index.tolist())

    def write(self, part: Any, separator: str, header: bool, labels: bool) -> str:
        """Return a part as text."""
        return str(part.to_csv(sep=separator, header=header, index=labels and self.index is not None))


def _moments(series: Any) -> list[str]:
    """Return times as `str` writes each of them."""
    from numpy import datetime_as_string, where

    zone = getattr(series.dtype, "tz", None)
    local = series if zone is None else series.dt.tz_localize(None)
    values = local.to_numpy()
    texts = datetime_as_string(values, unit="s")
    is_whole = values.astype("datetime64[s]") == values
    if not is_whole.all():
        micro = datetime_as_string(values, unit="us")
        exact = where(values.astype("datetime64[us]") == values, micro, datetime_as_string(values, unit="ns"))
        texts = where(is_whole, texts, exact)
    found = [text.replace("T", " ") for text in texts.tolist()]
    if zone is None:
        return found
    shifts = (local - series.dt.tz_convert(None)).to_numpy().astype("int64").tolist()
    ends: dict[int, str] = {}
    for number, shift in enumerate(shifts):
        if shift not in ends:
            ends[shift] = str(series.iloc[number])[len(found[number]) :]
    return [text + ends[shift] for text, shift in zip(found, shifts, strict=True)]
