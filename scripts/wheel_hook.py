"""Called by the build backend: refuses a wheel without the playground, which git does not have."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "src/cloche/doors/page/built/index.html"


class WheelHook(BuildHookInterface[Any]):
    """Looks before anything is built; an editable install shows the files of the clone, and needs no page yet."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  (hatchling calls it)
        if version == "standard" and not Path(self.root, PAGE).is_file():
            raise SystemExit("The playground is not built, so the wheel would lack it. Run `make wheel` in the clone.")
