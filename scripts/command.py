"""Writes the `cloche` command of a clone: like pip's, but started without `site`, of which `cloche run` needs nothing.

That saves it a millisecond or two.  Where packages are needed after all, `cloche.cli.main` makes up for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"

COMMAND = """\
#!{python} -S
import sys
sys.path[0] = {source!r}
sys.prefix = sys.exec_prefix = {prefix!r}
from cloche.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def main() -> int:
    """Replace what pip has written, unless this Python cannot be named in a first line."""
    folder = Path(sys.prefix) / "bin"
    python = str(folder / "python")
    if len(python) > 100 or python.split() != [python]:
        return 0
    (folder / "cloche").write_text(COMMAND.format(python=python, source=str(SOURCE), prefix=sys.prefix))
    return 0


if __name__ == "__main__":
    sys.exit(main())
