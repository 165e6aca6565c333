"""Frozen data classes, at a hundredth of the time that `dataclasses` costs when a program starts.

Importing dataclasses takes as long as a bare Python needs to start, and each class another millisecond; a cold `cloche
run` cannot afford that (docs/decisions/0004-plain-data.md).  Type checkers see ordinary dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Only type checkers need it."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Plain:
    """The base of frozen data: a subclass annotates its fields and gives defaults; the rest is inherited."""

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012  (each subclass gets its own)

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(name for name in cls.__annotations__ if not name.startswith("_"))
        cls._defaults = {name: cls.__dict__[name] for name in cls._fields if name in cls.__dict__}

    def __init__(self, *values: Any, **named: Any) -> None:
        fields, state = self._fields, self.__dict__
        state.update(self._defaults)
        state.update(named)
        if values:
            state.update(zip(fields, values, strict=False))
        if len(state) != len(fields) or len(values) + len(named) > len(fields) or self._twice(values, named):
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}, each once")

    def _twice(self, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
        """Return whether a field is given both by position and by name."""
        return bool(values and named) and any(name in named for name in self._fields[: len(values)])

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return type(self)(**{**{name: self.__dict__[name] for name in self._fields}, **changes})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields by name; plain data inside them, also in a tuple, becomes dicts as well."""
        return {name: _as_dict(getattr(self, name)) for name in self._fields}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        # Raw bytes repeat a text field that is shown already.
        shown = (f"{name}={getattr(self, name)!r}" for name in self._fields if not name.endswith("_bytes"))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)


def _as_dict(value: Any) -> Any:
    if isinstance(value, Plain):
        return value.as_dict()
    if isinstance(value, tuple) and value and isinstance(value[0], Plain):
        return [_as_dict(one) for one in value]
    return value
