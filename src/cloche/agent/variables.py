"""The environment variables of forked programs and kernels.

Every read of `os.environ` encodes and decodes, and a sandbox has dozens of variables.  So a copy is kept beside it, and
an order to a fork has only the variables that differ from those that the fork has from its parent.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_inherited: dict[str, str] = {}  # by this process, and by all of its forks
_now: dict[str, str] = {}


def note() -> None:
    """Record the variables; call this before the first fork, after which only `put` may change them."""
    global _inherited, _now
    _inherited = _now = dict(os.environ)


def put(wanted: Mapping[str, str]) -> None:
    """Make these the only environment variables."""
    global _now
    for name in [name for name in _now if name not in wanted]:
        os.environ.pop(name, None)
    for name, value in wanted.items():
        if _now.get(name) != value:
            os.environ[name] = value
    _now = dict(wanted)


def difference(wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changes that turn the inherited variables into these; None removes a variable."""
    changes: dict[str, str | None] = {name: None for name in _inherited if name not in wanted}
    changes.update((name, value) for name, value in wanted.items() if _inherited.get(name) != value)
    return changes


def changed(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the variables after these changes; the opposite of `difference`."""
    return {name: value for name, value in {**_inherited, **changes}.items() if value is not None}
