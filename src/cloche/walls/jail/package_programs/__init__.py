"""Stand-ins for package managers, which come before the real ones on a sandbox's PATH.

They hand a plain install over to Cloche, which has the packages already or gets them once for all sandboxes.  For
everything else, and where the sandbox reaches a package index by its network policy, they run the real program.

The modules beside this one run inside a sandbox, without Cloche and with the standard library alone.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# The programs' names, and the modules that they are.
_PROGRAMS = {
    **dict.fromkeys(("pip", "pip3", "uv"), "pip"),
    **dict.fromkeys(("npm", "npx"), "npm"),
    "with-dependencies": "builds",
}
BUILD_TOOLS = ("cargo", "go", "mvn")  # a stand-in for one that is missing would say that the host has it
_START = b"#!/opt/env/bin/python3 -IS\n"


def read(library: str, tools: Iterable[str]) -> dict[str, bytes]:
    """The programs by name; `library` is the folder of Cloche's own code, `tools` are those of the BUILD_TOOLS here."""
    texts: dict[str, bytes] = {}
    for module in set(_PROGRAMS.values()):
        with open(os.path.join(library, "walls", "jail", "package_programs", f"{module}.py"), "rb") as file:
            texts[module] = _START + file.read()
    return {name: texts[module] for name, module in {**_PROGRAMS, **dict.fromkeys(tools, "builds")}.items()}
