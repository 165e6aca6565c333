"""What a sandbox may use."""

from __future__ import annotations

from cloche.errors import InvalidRun
from cloche.model.plain import Plain

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_WRITTEN_OUT = 10**18


class Limits(Plain):
    """Time and resources of one sandbox; each is enforced from outside."""

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
        timeout: float | None = 30.0,
        memory: int | str = "512M",
        cpu: float = 1.0,
        disk: int | str = "1G",
        processes: int = 64,
        output: int | str = "10M",
        build_timeout: float | None = 60.0,
    ) -> Limits:
        """Limits from what a person writes: `memory="512M"`."""
        if repr((timeout, memory, cpu, disk, processes, output, build_timeout)) == _USUAL:
            return _usual
        return cls(
            timeout_s=_seconds("timeout", timeout),
            memory_bytes=int(within("memory", size("memory", memory), 16 << 20, 1 << 44, "bytes")),
            cpu=float(within("cpu", cpu, 0.01, 1024, "cores")),
            disk_bytes=int(within("disk", size("disk", disk), 1 << 20, 1 << 44, "bytes")),
            processes=_whole("processes", within("processes", processes, 1, 1 << 20, "processes")),
            output_bytes=int(within("output", size("output", output), 0, 1 << 34, "bytes")),
            build_timeout_s=_seconds("build_timeout", build_timeout),
        )


_USUAL = repr((30, "512M", 1.0, "1G", 64, "10M", 60))  # what nearly everybody asks for; as a text, for True == 1.0
_usual = Limits()


def size(name: str, value: int | str) -> int:
    """A number of bytes, also written as `512M`, `1.5G` or `64 KiB`."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidRun(f"{name} must be a number of bytes or a text like '512M', not {value!r}")
    if isinstance(value, int):
        return value
    text = value.strip().upper().removesuffix("IB").removesuffix("B").strip()
    unit = text[-1:] if text[-1:] in _UNITS and text[-1:] else ""
    try:
        return int(float(text[: len(text) - len(unit)]) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise InvalidRun(
            f"{name}={value!r} is not a size", hint="Write a number of bytes, or a number with K, M or G: '512M'."
        ) from None


def _seconds(name: str, value: float | None) -> float | None:
    return None if value is None else float(within(name, value, 0.001, 7 * 86400, "seconds"))


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise InvalidRun(f"{name} must be a whole number, not {value!r}")
    return int(value)


def within(name: str, value: float, low: float, high: float, unit: str) -> float:
    """A number that is one, and not out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRun(f"{name} must be a number of {unit}, not {value!r}")
    if not low <= value <= high:
        bounds = f"between {_shown(low, unit)} and {_shown(high, unit)} {unit}"
        raise InvalidRun(f"{name} must be {bounds}, not {_shown(value)}")
    return value


def _shown(number: float, unit: str = "") -> str:
    """A number for a person; one of hundreds of digits is not written out."""
    if not isinstance(number, int):
        return f"{number:g}"
    if abs(number) > _WRITTEN_OUT:
        return "more" if number > 0 else "less"
    for letter in "TGMK" if unit == "bytes" else "":
        if number and number % _UNITS[letter] == 0:
            return f"{number // _UNITS[letter]}{letter}"
    return str(number)
