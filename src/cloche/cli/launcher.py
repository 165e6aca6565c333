"""Replaces the `cloche` command that an installer wrote by one that starts without `site`, which a run does not need.

That saves several milliseconds: installers' commands also import `re`.  Where packages are needed after all,
`cloche.cli.main` makes up for it.  `make install` and `cloche setup` call this.
"""

from __future__ import annotations

import os
import sys

_OURS = "from cloche.cli.main import main"  # in every installer's command
_COMMAND = f"""\
#!{{python}} -S
import sys
sys.path[0] = {{source!r}}
sys.prefix = sys.exec_prefix = {{prefix!r}}
{_OURS}
if __name__ == "__main__":
    sys.exit(main())
"""


def replace() -> None:
    """Replace the command of this virtual environment, if there is one and its Python fits into a first line."""
    command, python = f"{sys.prefix}/bin/cloche", f"{sys.prefix}/bin/python"
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    wanted = _COMMAND.format(python=python, source=source, prefix=sys.prefix)
    try:
        with open(command) as file:
            found = file.read()
    except (OSError, ValueError):
        return
    if found == wanted or _OURS not in found or len(python) > 100 or python.split() != [python]:
        return
    draft = f"{command}.{os.getpid()}"
    try:
        with open(draft, "w") as file:
            file.write(wanted)
        os.chmod(draft, 0o755)
        os.replace(draft, command)
    except OSError:
        return  # read-only: it only starts slower


if __name__ == "__main__":
    replace()
