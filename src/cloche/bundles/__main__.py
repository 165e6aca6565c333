"""`python -m cloche.bundles`: writes the bundles.  If it cannot, it says why and still exits with 0."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import ModuleType
from typing import Any

from cloche import __version__, bundles

# Each bundle contains these modules and everything that they import.  A later bundle assumes that the one in AFTER is
# loaded.  A module that is missing here is imported as usual, only slower; tests/cli/test_cold.py finds it.
WANTED = {
    # `cloche run`, until it has started the nursery's Python
    "start": """cli.head_start settings environment environment.fingerprint walls.jail.launch walls.jail.linux
        walls.jail.root""",
    # `cloche run`, while the nursery starts
    "run": """cli.run walls.jail.nursery_client blocking.sandbox.one_shot blocking.engine.place
        blocking.engine.programs blocking.walls.jail.wall
        languages.python.definition languages.detection.python_syntax""",
    "keeper": "walls.jail.nursery_client walls.jail.cgroups walls.jail.filter agent.signals",
    "nursery": "walls.jail.nursery_main",
}
AFTER = {"run": "start", "keeper": "start"}


def write(name: str) -> None:
    """Write one bundle, in a process that has imported none of our modules but these."""
    if name in AFTER:
        _imported(AFTER[name])
    modules = [_described(module) for module in _imported(name)]
    draft = f"{bundles.file_of(name)}.{os.getpid()}"
    os.makedirs(os.path.dirname(draft), exist_ok=True)
    with open(draft, "wb") as file:
        file.write(marshal.dumps((MAGIC_NUMBER, __version__, modules)))
    os.replace(draft, bundles.file_of(name))


def _imported(bundle: str) -> list[ModuleType]:
    """Import the modules of a bundle; return all of ours that this imported, in the order in which they were ready."""
    ready: list[ModuleType] = []
    usual: Any = SourceFileLoader.exec_module

    def recording(loader: SourceFileLoader, module: ModuleType) -> None:
        usual(loader, module)
        if module.__name__.startswith("cloche."):
            ready.append(module)

    loading: Any = SourceFileLoader
    loading.exec_module = recording
    try:
        for name in WANTED[bundle].split():
            import_module(f"cloche.{name}")
    finally:
        loading.exec_module = usual
    return ready


def _described(module: ModuleType) -> tuple[Any, ...]:
    spec = module.__spec__
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    path = spec.loader.path.removeprefix(bundles.ROOT)
    return module.__name__, path, bundles.sign(path), spec.loader.get_code(module.__name__)


def main(names: list[str]) -> int:
    """Write each bundle in a process of its own: a module that one has imported would be missing from the next."""
    try:
        if names:
            write(*names)
        else:
            for name in WANTED:
                subprocess.run([sys.executable, "-m", "cloche.bundles", name], check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"The bundles could not be written, so `cloche run` starts a little slower: {problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
