"""Says in sentences what a copy of a session lacks: variables, threads, sockets and processes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Why the variables of a context are not in a copy, as an agent reports it.
LANGUAGE, KILLED = "language", "killed"
_REASONS = {
    LANGUAGE: "only Python's variables can be copied",
    KILLED: "the copy was killed, possibly because memory ran out",
}
_MOST = 10  # contexts that are named
_MOST_CHARACTERS = 100  # of a name


def losses_text(lost: dict[str, Any]) -> str:
    """Describe losses, which are given by context; empty if there are none.  The data may come from a sandbox."""
    parts = [
        part for name, one in list(lost.items())[:_MOST] if isinstance(one, dict) and (part := _of(str(name), one))
    ]
    if len(lost) > _MOST:
        parts.append(f"and more in {len(lost) - _MOST} other contexts")
    return f"Not kept: {'; '.join(parts)}." if parts else ""


def _of(name: str, lost: dict[str, Any]) -> str:
    threads = lost.get("threads")
    amounts = (
        (len(threads) if isinstance(threads, list) else 0, "thread", "threads"),
        (lost.get("children"), "child process", "child processes"),
        (lost.get("sockets"), "socket", "sockets"),
    )
    things = [
        f"{number} {one if number == 1 else many}" for number, one, many in amounts if _is_number(number) and number
    ]
    if lost.get("variables"):
        reason = _REASONS.get(str(lost["variables"]), "")
        things.insert(0, f"the variables ({reason})" if reason else "the variables")
    shown = "".join(letter for letter in name[:_MOST_CHARACTERS] if letter.isprintable())
    return f"{', '.join(things)} of the context {shown}" if things else ""


def _is_number(value: Any) -> bool:
    return type(value) is int
