"""The limits of a sandbox: what they are called, what they may be, and what they are by default.

LIMITS is the one list of them.  Request bodies and answers, the command line's options, the client, the operator's
`max_…` settings, the E2B door and the page's form are made from it; tests compare docs and public signatures with it.
To add a limit: add a row to LIMITS, a field to `Limits` and an argument to `Limits.of`, and enforce it.  The section
"Adding a limit" of CONTRIBUTING.md tells the rest.

Every `cloche run` imports this module before it starts anything, so it imports next to nothing itself.
"""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_DAY_S = 86400
_LETTERS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WRITTEN_OUT = 10**18


class Limit(Plain):
    """A row of LIMITS."""

    name: str  # as callers write it: `memory`
    field: str  # in `Limits`, with the unit: `memory_bytes`
    unit: str  # "seconds" (these may be None), "bytes", "cores", or "processes" for a whole number
    default: Any  # as callers write it: "512M"
    low: float
    high: float
    allowed: float  # the most that callers of a server may ask for, unless its operator sets `max_<name>`
    title: str  # for a form
    help: str  # what it limits, for help texts and tables
    by_wall: bool = (
        False  # the wall enforces it, not the engine; a wall that cannot refuses other values than the default
    )

    @property
    def setting(self) -> str:
        """The operator's setting that bounds it."""
        return f"max_{self.name}"

    def read(self, value: Any) -> Any:
        """A value that a caller wrote, checked, in this limit's unit."""
        if self.unit == "seconds" and value is None:
            return None
        if self.unit == "bytes":
            value = size(self.name, value)
        number = within(self.name, value, self.low, self.high, self.unit)
        if self.unit in ("seconds", "cores"):
            return float(number)
        if number != int(number):
            raise InvalidRun(f"{self.name} must be a whole number, not {value!r}.")
        return int(number)

    def shown(self, value: float) -> str:
        """A value for a person: "8 GB", "3,600 seconds"."""
        if self.unit != "bytes":
            return f"{value:,.15g} {self.unit}"
        for letter in "TGMK":
            if value and value % _LETTERS[letter] == 0:
                return f"{value // _LETTERS[letter]:g} {letter}B"
        return f"{value:g} bytes"


# In the order of the arguments of `Limits.of`.  A sandbox cannot use more cores than its host has, so that a server
# allows any number of them by default.
# fmt: off
LIMITS = (
    #     name, field, unit, default, low, high, allowed, title,
    #     help
    Limit("timeout", "timeout_s", "seconds", 30, 0.001, 7 * _DAY_S, 3600, "Time for each run",
          "time limit of each run, in seconds"),
    Limit("memory", "memory_bytes", "bytes", "512M", 16 << 20, 1 << 44, 8 << 30, "Memory",
          "memory of the sandbox, without its files", by_wall=True),
    Limit("cpu", "cpu", "cores", 1.0, 0.01, 1024, 1024, "CPU",
          "CPU cores of the sandbox", by_wall=True),
    Limit("disk", "disk_bytes", "bytes", "1G", 1 << 20, 1 << 44, 16 << 30, "Disk",
          "size of all files: `/sandbox`, `/tmp`, `/dev/shm` and new folders in `/` together", by_wall=True),
    Limit("processes", "processes", "processes", 64, 1, 1 << 20, 1024, "Processes",
          "processes and threads at once", by_wall=True),
    Limit("output", "output_bytes", "bytes", "10M", 0, 1 << 34, 64 << 20, "Output",
          "standard output and standard error of each run, together"),
    Limit("build_timeout", "build_timeout_s", "seconds", 60, 0.001, 7 * _DAY_S, 3600, "Time for compilers",
          "time limit of the compiler, before a program runs, in seconds"),
)
# fmt: on
BY_NAME = {row.name: row for row in LIMITS}


class Limits(Plain):
    """Time and resources of one sandbox; each is enforced from outside.  `Limits.of` takes what a person writes."""

    timeout_s: float | None = 30.0
    memory_bytes: int = 512 << 20
    cpu: float = 1.0
    disk_bytes: int = 1 << 30
    processes: int = 64
    output_bytes: int = 10 << 20
    build_timeout_s: float | None = 60.0

    @classmethod
    def of(
        cls,
        timeout: float | None = 30,
        memory: int | str = "512M",
        cpu: float = 1.0,
        disk: int | str = "1G",
        processes: int = 64,
        output: int | str = "10M",
        build_timeout: float | None = 60,
    ) -> Limits:
        """Limits as a person writes them: `Limits.of(memory="512M")`.  Raises `InvalidRun` for one out of range."""
        values = (timeout, memory, cpu, disk, processes, output, build_timeout)
        if repr(values) == _DEFAULTS:
            return _default
        return cls(**{row.field: row.read(value) for row, value in zip(LIMITS, values, strict=True)})

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Limits:
        """Limits from a record of their fields, which may be older than some of them."""
        return cls(**{name: fields[name] for name in cls._fields if name in fields})

    def by_name(self) -> dict[str, Any]:
        """The limits as arguments: `Limits.of(**limits.by_name()) == limits`."""
        return {row.name: getattr(self, row.field) for row in LIMITS}


_DEFAULTS = repr(tuple(row.default for row in LIMITS))  # nearly every call; as a text, because True == 1.0
_default = Limits()


def size(name: str, value: int | str) -> int:
    """A number of bytes, also written as `512M`, `1.5G` or `64 KiB`."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidRun(f"{name} must be a number of bytes or a text like '512M', not {value!r}")
    if isinstance(value, int):
        return value
    text = value.strip().upper().removesuffix("IB").removesuffix("B").strip()
    letter = text[-1:] if text[-1:] in _LETTERS and text[-1:] else ""
    try:
        return int(float(text[: len(text) - len(letter)]) * _LETTERS[letter])
    except (ValueError, OverflowError):
        raise InvalidRun(
            f"{name}={value!r} is not a size", hint="Write a number of bytes, or a number with K, M or G: '512M'."
        ) from None


def within(name: str, value: float, low: float, high: float, unit: str) -> float:
    """The value, if it is a number from low to high; raises `InvalidRun` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRun(f"{name} must be a number of {unit}, not {value!r}")
    if not low <= value <= high:
        bounds = f"between {_number(low, unit)} and {_number(high, unit)} {unit}"
        raise InvalidRun(f"{name} must be {bounds}, not {_number(value)}")
    return value


def _number(number: float, unit: str = "") -> str:
    """A number for a person; one of hundreds of digits is not written out."""
    if not isinstance(number, int):
        return f"{number:g}"
    if abs(number) > _WRITTEN_OUT:
        return "more" if number > 0 else "less"
    for letter in "TGMK" if unit == "bytes" else "":
        if number and number % _LETTERS[letter] == 0:
            return f"{number // _LETTERS[letter]}{letter}"
    return str(number)
