"""Makes layers for tests, from small trees such as sandboxes write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloche.packages.layers import Layer, LayerStore

NAME, OTHER = "ab" * 32, "cd" * 32


def fill(folder: str, size: int = 100) -> Path:
    """Write a small tree, as a sandbox would."""
    tree = Path(folder) / "tree"
    (tree / "lib/demo").mkdir(parents=True)
    (tree / "lib/demo/__init__.py").write_bytes(b"x" * size)
    (tree / "lib/demo/big.so").write_bytes(os.urandom(200_000))
    (tree / "tool").write_text("#!/bin/sh\n")
    (tree / "tool").chmod(0o4755)
    return tree


def make(store: LayerStore, name: str = NAME, size: int = 100) -> Layer:
    with store.begin() as staging:
        fill(staging.folder, size)
        return store.keep(staging, name, "python", {"packages": [{"name": "demo"}]})


def make_spoilt(store: LayerStore, spoil: Callable[[Path], Any]) -> Layer:
    """Keep a tree that a hostile sandbox has prepared; what `spoil` returns is closed afterwards."""
    with store.begin() as staging:
        alive = spoil(fill(staging.folder))
        try:
            return store.keep(staging, NAME, "python", {})
        finally:
            if alive is not None:
                alive.close()


def left(store: LayerStore) -> list[str]:
    return os.listdir(os.path.join(store.folder, "making"))
