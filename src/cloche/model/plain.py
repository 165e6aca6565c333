"""Frozen plain data, at a hundredth of what `dataclasses` costs when a program starts.

Importing dataclasses takes as long as a bare Python needs to start, and each class another millisecond; a cold `cloche
run` cannot afford that (docs/decisions/0004-plain-data.md).  Type checkers see ordinary dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Means something to type checkers only."""
        return lambda cls: cls


@dataclass_transform(frozen_default=True)
class Plain:
    """Base of frozen data: annotate the fields in the class, give defaults, and the rest is there."""

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012  (made anew for each subclass)

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
        """Is a field given by place and by name?"""
        return bool(values and named) and any(name in named for name in self._fields[: len(values)])

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def as_dict(self) -> dict[str, Any]:
        """The fields by name; plain data in them, also in a tuple, likewise."""
        return {name: _as_dict(getattr(self, name)) for name in self._fields}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        # Raw bytes are the same as a text field that is shown already.
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
