"""The packages that a script names in a block at its top, as PEP 723 defines it, for `cloche run`."""

from __future__ import annotations

import sys
from tomllib import loads

from cloche.errors import InvalidRun
from cloche.model.packages import script_requirements
from cloche.model.python_versions import is_bound, is_within

BEGIN = "# /// script"


def packages_of(code: str, is_here: bool) -> tuple[str, ...]:
    """The packages that a script names.  With `is_here`, the script must be one for this Python."""
    found = script_requirements(code)  # checks the whole block
    bound = _table(code).get("requires-python", "")
    if not isinstance(bound, str) or (bound and not is_bound(bound)):
        raise InvalidRun(
            f"requires-python = {bound!r:.100} of the script is not a bound on versions.",
            hint='Write for example: # requires-python = ">=3.11".',
        )
    version = ".".join(map(str, sys.version_info[:3]))  # sandboxes have the Python of this process
    if bound and is_here and not is_within(version, bound):
        raise InvalidRun(
            f"The script needs Python {bound}, and sandboxes have Python {version} here.",
            hint="Change requires-python at the top of the script, or leave the block out with --no-script-packages.",
        )
    return found


def _table(code: str) -> dict[str, object]:
    """The block, which is known to be correct, as a table."""
    lines = iter(code.splitlines())
    for line in lines:
        if line.rstrip() == BEGIN:
            break
    inside = []
    for line in lines:
        if not line.startswith("#") or line.rstrip() == "# ///":
            break
        inside.append(line[2:])
    return loads("\n".join(inside))
