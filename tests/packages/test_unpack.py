"""Wheels become the tree of a layer: what is installed where, and what the metadata says about it afterwards."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packages.crafted_wheels import SITE, entry, hashed, make_wheel, unpack


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "tree"


def distribution(target: Path, name: str = "demo") -> importlib.metadata.Distribution:
    [found] = importlib.metadata.distributions(name=name, path=[str(target / SITE)])
    return found


def test_a_package_is_described_and_imports(wheels: Path, target: Path) -> None:
    make_wheel(
        wheels,
        {"demo/__init__.py": b"answer = 42\n", "demo/data.bin": bytes(10_000_000), "start.pth": b"import demo\n"},
        metadata="Metadata-Version: 2.1\nName: Demo\nVersion: 1.0.0\nLicense-Expression: MIT\n\nLicense: other\n",
        entries=[entry("demo/random.bin", os.urandom(100_000))],
    )
    [package] = unpack(wheels, target)["packages"]
    compiled = f"demo/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    files = [path for path in target.rglob("*") if path.is_file()]
    assert package["bytes"] == sum(path.stat().st_size for path in files)
    assert package == {
        "name": "demo",
        "version": "1.0",
        "files": len(files),
        "bytes": package["bytes"],
        "licence": "MIT",
        "pth": ["start.pth"],
        "scripts": [],
        "top": ["demo", "demo-1.0.dist-info", "start.pth"],
    }
    assert (target / SITE / compiled).exists()
    program = (
        f"import sys; sys.path.insert(0, {str(target / SITE)!r}); import demo; print(demo.answer, demo.__cached__)"
    )
    shown = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == f"42 {target / SITE / compiled}\n"


def test_record_lists_what_was_really_installed(wheels: Path, target: Path) -> None:
    make_wheel(
        wheels,
        {
            "demo/__init__.py": b"",
            "demo/with,comma.txt": b"x",
            "demo-1.0.data/scripts/old": b"#!pythonw -E\nprint('old')\n",
            "demo-1.0.data/data/share/demo/page.html": b"page",
            "demo-1.0.data/headers/demo.h": b"// header",
            "demo-1.0.data/purelib/pure.py": b"x = 1\n",
            "demo-1.0.data/platlib/plat.py": b"broken syntax (\n",
        },
        entry_points="[console_scripts]\ndemo = demo.main:app.run [extra]\n"
        "[gui_scripts]\nshow=demo:show\n[other]\na = b\n",
    )
    (wheels / "requested.json").write_text(json.dumps(["DEMO"]))
    [package] = unpack(wheels, target)["packages"]
    assert package["scripts"] == ["demo", "old", "show"]
    with open(target / SITE / "demo-1.0.dist-info/RECORD") as file:
        rows = list(csv.reader(file))
    paths = {os.path.normpath(f"{SITE}/{path}") for path, _, _ in rows}
    assert paths == {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    for path, written, size in rows:
        data = (target / SITE / path).read_bytes()
        if path.endswith((".pyc", "/RECORD")):
            assert (written, size) == ("", "")
        else:
            assert (written, size) == (hashed(data), str(len(data)))
    assert paths >= {
        "share/demo/page.html",
        "include/site/python3.11/demo/demo.h",
        f"{SITE}/pure.py",
        f"{SITE}/plat.py",
        f"{SITE}/demo-1.0.dist-info/REQUESTED",
    }
    assert (target / "bin/old").read_text() == "#!/opt/env/bin/python3\nprint('old')\n"
    script = (target / "bin/demo").read_text()
    assert script.startswith("#!/opt/env/bin/python3\nimport sys\nfrom demo.main import app\n")
    assert "sys.exit(app.run())" in script
    assert distribution(target).read_text("INSTALLER") == "cloche\n"


def test_only_requested_packages_are_marked_so(wheels: Path, target: Path) -> None:
    make_wheel(wheels)
    make_wheel(wheels, name="other")
    (wheels / "requested.json").write_text('["other"]')
    unpack(wheels, target)
    assert [name for name in ("demo", "other") if distribution(target, name).read_text("REQUESTED") is not None] == [
        "other"
    ]


def test_files_have_two_modes_and_nothing_else(wheels: Path, target: Path) -> None:
    make_wheel(
        wheels,
        entries=[
            entry("demo/tool", b"#!/bin/sh\n", stat.S_IFREG | 0o6777),
            entry("demo/open.txt", b"x", stat.S_IFREG | 0o666),
            entry("demo/hidden.txt", b"x", stat.S_IFREG | 0o000),
        ],
    )
    unpack(wheels, target)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (target / SITE / "demo").iterdir()}
    assert modes.pop("__pycache__") == 0o755
    assert modes == {"tool": 0o755, "open.txt": 0o644, "hidden.txt": 0o644, "__init__.py": 0o644}


def test_packages_share_a_namespace_and_equal_files(wheels: Path, target: Path) -> None:
    for name in ("one", "two"):
        make_wheel(wheels, {f"space/{name}.py": b"", "space/LICENCE": b"same", "tests/__init__.py": b""}, name)
    answer = unpack(wheels, target)
    assert [package["name"] for package in answer["packages"]] == ["one", "two"]
    assert {path.name for path in (target / SITE / "space").iterdir()} >= {"one.py", "two.py", "LICENCE"}
    for name in ("one", "two"):  # each package's RECORD has the shared file
        assert "space/LICENCE," in (distribution(target, name).read_text("RECORD") or "")


def test_a_script_of_an_entry_point_replaces_one_of_the_same_name(wheels: Path, target: Path) -> None:
    make_wheel(
        wheels,
        {"demo/__init__.py": b"", "demo-1.0.data/scripts/demo": b"#!python\nold\n"},
        entry_points="[console_scripts]\ndemo = demo:main\n",
    )
    unpack(wheels, target)
    assert "from demo import main" in (target / "bin/demo").read_text()


@pytest.mark.parametrize(
    ("file", "info", "version"),
    [
        ("My_Demo-1.0-py3-none-any.whl", "my_demo-1.0.dist-info", "1.0.0"),
        ("my.demo-2.0b1-1-py3-none-any.whl", "my_demo-2.0b1.dist-info", "v2.0.0-beta.1"),
        ("my_demo-1!1.0.post1+cpu-py3-none-any.whl", "my_demo-1!1.0.post1+cpu.dist-info", "1!1-1+CPU"),
    ],
)
def test_names_and_versions_may_be_spelt_differently(
    wheels: Path, target: Path, file: str, info: str, version: str
) -> None:
    metadata = f"Metadata-Version: 2.1\nName: my-demo\nVersion: {version}\n"
    make_wheel(wheels, {"demo.py": b""}, file=file, info=info, metadata=metadata)
    assert unpack(wheels, target)["packages"][0]["name"] == "my-demo"


def test_many_files_of_all_sizes_arrive(wheels: Path, target: Path) -> None:
    files = {f"demo/{number}/file.txt": os.urandom(number * 7) for number in range(2000)}
    files["demo/big.so"] = os.urandom(2**20) * 12
    make_wheel(wheels, files)
    assert unpack(wheels, target)["packages"][0]["files"] == len(files) + 4
    assert all((target / SITE / path).read_bytes() == data for path, data in files.items())


def test_a_wheels_own_compiled_modules_stay(wheels: Path, target: Path) -> None:
    compiled = f"demo/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    make_wheel(wheels, {"demo/__init__.py": b"x = 1\n", compiled: b"its own"})
    unpack(wheels, target)
    assert (target / SITE / compiled).read_bytes() == b"its own"


def test_a_disk_that_cannot_be_written_is_reported(wheels: Path, target: Path) -> None:
    make_wheel(wheels)
    (target / SITE).mkdir(parents=True)
    (target / SITE / "demo").write_text("in the way")
    problem = unpack(wheels, target)["problem"]
    assert problem["rule"] == "disk"
    assert "cannot be written" in problem["message"]
