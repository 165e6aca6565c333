"""The R kernel: drives one R, in which the cells run (scripts/r.R)."""

from __future__ import annotations

import os

from cloche.kernels import folder_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SCRIPT = "/opt/kernels/r.R"
_LIBRARIES = ("lib/R", "lib64/R", "local/lib/R")  # below a prefix: possible homes of R


def main(control: int, order: dict[str, Any]) -> NoReturn:
    """Serve as the kernel until the agent is gone."""
    folder_kernel.serve(control, order, "R", "code.R", _command)


def _command(folder: str, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return R's command and the environment that its start script would set; for an unknown layout, the script."""
    arguments = ["--no-echo", "--no-restore", "--no-save", f"--file={SCRIPT}", "--args", folder]
    for place in environment.get("PATH", os.defpath).split(":"):
        prefix = os.path.dirname(place)
        for home in (f"{prefix}/{library}" for library in _LIBRARIES):
            if os.path.exists(f"{place}/Rscript") and os.path.exists(f"{home}/bin/exec/R"):
                share = "/usr/share/R" if home == "/usr/lib/R" else home
                variables = {
                    name: f"{share}/{name[2:-4].lower()}" for name in ("R_SHARE_DIR", "R_INCLUDE_DIR", "R_DOC_DIR")
                }
                variables |= {"R_HOME": home, "LD_LIBRARY_PATH": f"{home}/lib"}
                return [f"{home}/bin/exec/R", *arguments], {**variables, **environment}
    return ["R", *arguments], environment
