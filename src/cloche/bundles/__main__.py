"""`python -m cloche.bundles`: writes the bundles, or says why it cannot, which is no failure."""

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

from cloche import bundles

# What a bundle is for: these, and all that they import, in a process that has what an earlier one is for.  What is
# missing here is imported as usual, so tests/cli/test_cold.py looks.
WANTED = {
    # `cloche run`, until the nursery's Python is started
    "start": """cli.head_start settings environment environment.fingerprint walls.jail.launch walls.jail.linux
        walls.jail.root""",
    # the same while that starts
    "run": """cli.run walls.jail.nurseries blocking.sandbox.one_shot blocking.engine.place blocking.engine.programs
        blocking.walls.jail.wall
        languages.definitions.python""",
    "keeper": "walls.jail.nurseries walls.jail.cgroups walls.jail.filter agent.signals",
    "nursery": "walls.jail.nursery",
}
AFTER = {"run": "start", "keeper": "start"}


def write(name: str) -> None:
    """Write a bundle; in a process that has imported nothing of ours yet, but for this."""
    if name in AFTER:
        _imported(AFTER[name])
    modules = [_described(module) for module in _imported(name)]
    draft = f"{bundles.file_of(name)}.{os.getpid()}"
    os.makedirs(os.path.dirname(draft), exist_ok=True)
    with open(draft, "wb") as file:
        file.write(marshal.dumps((MAGIC_NUMBER, modules)))
    os.replace(draft, bundles.file_of(name))


def _imported(bundle: str) -> list[ModuleType]:
    """Import what it wants; all of ours that this has imported, in the order in which they were ready."""
    ready: list[ModuleType] = []
    usual: Any = SourceFileLoader.exec_module

    def noting(loader: SourceFileLoader, module: ModuleType) -> None:
        usual(loader, module)
        if module.__name__.startswith("cloche."):
            ready.append(module)

    loading: Any = SourceFileLoader
    loading.exec_module = noting
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
    """Each in a process of its own: what one has imported the next would not note."""
    try:
        if names:
            write(*names)
        else:
            for name in WANTED:
                subprocess.run([sys.executable, "-m", "cloche.bundles", name], check=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"`cloche run` will start a little slower: {problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
