"""A layer from end to end: one sandbox unpacks wheels, the store takes them over, other sandboxes use them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.packages.crafted_wheels import SCRIPT, SITE, make_wheel

import cloche
from cloche.errors import Refused
from cloche.packages.layers import Layer, LayerStore, Staging

NAME = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(str(tmp_path / "store"))


@pytest.fixture
def staging(store: LayerStore) -> Iterator[Staging]:
    with store.begin() as made:
        os.mkdir(os.path.join(made.folder, "tree"))
        yield made


def unpacked(store: LayerStore, staging: Staging, wheels: Path, afterwards: str = "true") -> Layer:
    """Unpack wheels in a sandbox that runs a command of its own afterwards, and keep the result."""
    mounts = [
        cloche.Mount(str(wheels), "/sandbox/wheels"),
        cloche.Mount(os.path.join(staging.folder, "tree"), "/sandbox/tree", writable=True),
    ]
    with cloche.Sandbox(mounts=mounts) as box:
        for name in ("unpack.py", "wheel.py"):
            box.files.write(name, SCRIPT.with_name(name).read_text())
        ended = box.commands.run("/opt/env/bin/python3 -I -S unpack.py wheels tree python3.11")
        assert ended.exit_code == 0, ended.stdout + ended.stderr
        ended_after = box.commands.run(afterwards)
        assert ended_after.exit_code == 0, ended_after.stderr
    return store.keep(staging, NAME, "python", json.loads(ended.stdout))


def test_a_layer_is_imported_in_another_sandbox_and_cannot_be_changed_there(
    jail: None, store: LayerStore, staging: Staging, tmp_path: Path
) -> None:
    make_wheel(tmp_path / "wheels")
    layer = unpacked(store, staging, tmp_path / "wheels")
    assert layer.details["packages"][0]["name"] == "demo"
    with cloche.Sandbox(mounts=[cloche.Mount(layer.folder, "/sandbox/layer")]) as box:
        box.run(f"import sys; sys.path.insert(0, '/sandbox/layer/{SITE}')")
        assert box.run("import demo; demo.answer").text == "42"
        attacks = [
            f"echo 'answer = 0' > layer/{SITE}/demo/__init__.py",
            f"chmod 777 layer/{SITE}/demo/__init__.py",
            f"touch layer/{SITE}/sitecustomize.py",
            f"ln layer/{SITE}/demo/__init__.py kept",
            f"exec 3< layer/{SITE}/demo/__init__.py; echo 'answer = 0' > /proc/self/fd/3",
            f"mv layer/{SITE}/demo layer/{SITE}/other",
            "rm -r layer/lib",
        ]
        for attack in attacks:
            assert box.commands.run(attack).exit_code != 0, attack
    assert store.find(NAME) == layer


@pytest.mark.parametrize(
    ("attack", "sentence"),
    [
        ("ln -s /etc/passwd tree/link", "link is a symbolic link"),
        ("mkfifo tree/pipe", "pipe is a pipe"),
        (f"ln tree/{SITE}/demo/__init__.py tree/second", "has a second name"),
    ],
)
def test_what_a_hostile_build_leaves_is_refused(
    jail: None, store: LayerStore, staging: Staging, tmp_path: Path, attack: str, sentence: str
) -> None:
    make_wheel(tmp_path / "wheels")
    with pytest.raises(Refused, match=sentence):
        unpacked(store, staging, tmp_path / "wheels", attack)
    assert store.names() == []
