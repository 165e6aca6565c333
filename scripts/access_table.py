"""Writes `docs/access.md`: every route of the server with the access that it declares.

.venv/bin/python scripts/access_table.py            write it
.venv/bin/python scripts/access_table.py --check    only compare
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import MagicMock

from cloche.configuration import Configuration
from cloche.doors.gate.declarations import Declared
from cloche.doors.server import application

TARGET = Path(__file__).parent.parent / "docs" / "access.md"
_HEAD = """<!-- Written by scripts/access_table.py from the routes' own declarations. Do not edit. -->
# Access

Each route declares, where it is defined, whose requests it takes (`scope`) and what bodies they may have (`body`). The
gate decides by this declaration alone. A route that declares nothing is for admins and takes no body. An address that
does not exist needs a key like any other, so that nobody can find out without a key which addresses exist.

| scope | whose requests the route takes |
|---|---|
| `public` | everybody's |
| `page` | those of browsers; without a key, a browser gets the page where people sign in |
| `share` | those of everybody who has the link, within the operator's setting `sharing` |
| `port` | those with the address: it has a port's token, or E2B's name of a sandbox with public ports |
| `traffic` | E2B's, with the sandbox's traffic token or its access token, at its key's expense |
| `sandbox` | E2B's, with the sandbox's access token, at its key's expense |
| `read` | those with any key |
| `run` | those with a key that may run code |
| `admin` | those with an admin's key |

| body | |
|---|---|
| `none` | the route reads none; a client may send up to 16 KB, which are ignored |
| `json` | up to `max_body`: the whole body is read into memory; its values and depth are bounded |
| `envelopes` | JSON messages of a stream (E2B), up to `max_body` together, each bounded like `json` |
| `upload` | up to `max_upload`, read piece by piece |
| `input` | JSON up to `max_body`, other types up to `max_upload` |
| `encoded` | an upload that may be compressed |
| `stream` | of any length: it is passed on to a server in a sandbox |
"""


def declared() -> list[Declared]:
    """Every route of the application; no service is needed to list them."""
    service = MagicMock()
    service.configuration = Configuration()
    return application(service, MagicMock()).declarations()


def written(routes: Iterable[Declared]) -> str:
    text = _HEAD
    doors: dict[str, list[Declared]] = {}
    for route in routes:
        doors.setdefault(route.door, []).append(route)
    for door, found in doors.items():
        text += f"\n## {door}\n\n| method | path | scope | body |\n|---|---|---|---|\n"
        for one in sorted(found, key=lambda one: (one.path, one.method)):
            body = "" if one.method == "WebSocket" else f"`{one.access.body}`"
            text += f"| {one.method} | `{one.path}` | `{one.access.scope}` | {body} |\n"
    return text


def main() -> int:
    text = written(declared())
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET.name} differs from the routes' declarations: run scripts/access_table.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
