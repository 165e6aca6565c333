"""Reads the block at the top of a Python script that names its packages, as PEP 723 defines it."""

from __future__ import annotations

from tomllib import TOMLDecodeError, loads

from cloche.errors import InvalidRun
from cloche.model.packages import MAX_REQUIREMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BEGIN, _END = "# /// script", "# ///"
_MAX_BLOCK = 64 << 10  # characters
_EXAMPLE = 'A block is: # /// script, then # dependencies = ["httpx"], then # ///, each on a line of its own.'
# What uv would do with these changes where packages come from, and that is not the script's to choose.
_NOT_OURS = ("sources", "index", "index-url", "extra-index-url", "find-links")


def dependencies(code: str) -> tuple[str, ...]:
    """The requirements that a script names; empty without a block, InvalidRun if it cannot be read."""
    block = _block(code)
    if block is None:
        return ()
    try:
        found = loads(block)
    except (TOMLDecodeError, RecursionError, ValueError) as problem:
        raise InvalidRun(f"The script's block of packages is not TOML: {problem}.", hint=_EXAMPLE) from problem
    _check_tools(found)
    names = found.get("dependencies", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidRun("`dependencies` of the script's block is not a list of texts.", hint=_EXAMPLE)
    if len(names) > MAX_REQUIREMENTS:
        raise InvalidRun(f"The script's block names {len(names)} packages, and can name at most {MAX_REQUIREMENTS}.")
    return tuple(names)


def _block(code: str) -> str | None:
    lines = [line.rstrip("\r") for line in code.split("\n")]
    starts = [number for number, line in enumerate(lines) if line.rstrip() == _BEGIN]
    if not starts:
        return None
    inside: list[str] = []
    for line in lines[starts[0] + 1 :]:
        if line != "#" and not line.startswith("# "):
            break
        inside.append(line)
    ends = [number for number, line in enumerate(inside) if line.rstrip() == _END]
    if not ends:
        raise InvalidRun("The script's block of packages has no end.", hint=_EXAMPLE)
    if any(start > starts[0] + ends[-1] for start in starts):
        raise InvalidRun("The script has more than one block of packages.", hint="Put them into one.")
    block = "\n".join(line[2:] for line in inside[: ends[-1]])
    if len(block) > _MAX_BLOCK:
        raise InvalidRun(f"The script's block of packages is longer than {_MAX_BLOCK} characters.")
    return block


def _check_tools(found: dict[str, Any]) -> None:
    tool = found.get("tool")
    uv = tool.get("uv") if isinstance(tool, dict) else None
    used = [name for name in _NOT_OURS if isinstance(uv, dict) and name in uv]
    if used:
        raise InvalidRun(
            f"The script's block sets {used[0]} for uv, and packages come from the operator's index alone.",
            hint=f"Remove {used[0]} from the table tool.uv.",
        )
