import importlib.util
import json
import marshal
import os
import re
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cloche.environment import MANIFEST, fingerprint, interpreter, is_built, location, wheels

PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="module")
def env() -> Path:
    if not is_built(location()):
        pytest.skip("the sandbox's Python environment is not built; run `make install`")
    return Path(location())


@pytest.fixture
def site_packages(env: Path) -> Path:
    return env / "lib" / PYTHON / "site-packages"


def test_it_is_the_locks(env):
    manifest = json.loads((env / MANIFEST).read_text())
    lock = Path(fingerprint.__file__).with_name("packages.lock").read_text()
    assert manifest["fingerprint"] == fingerprint.FINGERPRINT
    locked = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", lock))
    assert {
        name.replace("_", "-").replace(".", "-"): version for name, version in manifest["packages"].items()
    } == locked


def test_the_slim_packages_need_no_others(env, site_packages):
    slim = {each.name for each in wheels.requirements(slim=True)}
    installed = {canonicalize_name(found.name): found for found in distributions(path=[str(site_packages)])}
    assert slim <= installed.keys()
    for name in map(canonicalize_name, slim):
        needed = [Requirement(text) for text in installed[name].requires or ()]
        applying = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
        assert {canonicalize_name(each.name) for each in applying} <= slim, name


def test_its_python_is_the_one_of_the_sandbox(env):
    for name in ("python", "python3", PYTHON):
        assert os.readlink(env / "bin" / name) == f"/opt/python/bin/{PYTHON}"
    settings = dict(line.split(" = ") for line in (env / "pyvenv.cfg").read_text().splitlines())
    assert settings["home"] == "/opt/python/bin"
    assert settings["include-system-site-packages"] == "true"  # with it, Python also looks for the user's


def test_its_interpreter_looks_for_libraries_where_the_sandbox_has_them(env):
    copy = env / "interpreter" / PYTHON
    if not copy.exists():
        pytest.skip("this Python runs at another prefix as it is")
    runpath = interpreter.find_runpath(copy.read_bytes())
    assert runpath is not None
    assert runpath.value.startswith("/opt/python/lib")


def test_nothing_of_cloche_is_in_it(site_packages):
    assert (site_packages / "numpy").is_dir()
    assert not list(site_packages.glob("*cloche*"))
    assert not (site_packages / "rich_argparse").exists()


def test_its_scripts_name_no_path_of_the_host(env):
    scripts = [path for path in (env / "bin").iterdir() if not path.is_symlink()]
    assert {"pip", "pytest", "ipython"} <= {script.name for script in scripts}
    for script in scripts:
        assert script.read_text().startswith("#!/opt/env/bin/python3\n"), script


@pytest.mark.parametrize("module", ["pandas/__init__.py", "numpy/linalg/_linalg.py", "matplotlib/pyplot.py"])
def test_its_bytecode_is_valid_and_speaks_of_paths_inside(site_packages, module):
    source = site_packages / module
    data = Path(importlib.util.cache_from_source(str(source))).read_bytes()
    assert data[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(data[4:8], "little") == 0b01, "a hash that is not checked"
    assert marshal.loads(data[16:]).co_filename == f"/opt/env/lib/{PYTHON}/site-packages/{module}"


def test_everyone_may_read_it(env, site_packages):
    for path in (env, env / "bin", site_packages, site_packages / "numpy"):
        assert path.stat().st_mode & 0o055 == 0o055
    for path in (env / MANIFEST, site_packages / "numpy" / "__init__.py"):
        assert path.stat().st_mode & 0o044 == 0o044


def test_its_fonts_are_listed_by_paths_that_exist_inside(env, site_packages):
    (listing,) = (env / "share" / "matplotlib").glob("fontlist-v*.json")
    files = {Path(font["fname"]) for font in json.loads(listing.read_text())["ttflist"]}
    data = site_packages / "matplotlib" / "mpl-data"
    assert Path("fonts/ttf/DejaVuSans.ttf") in files
    for file in files:
        assert not file.is_absolute() or file.is_relative_to("/usr/share/fonts")
        assert (data / file).is_file()


def test_every_font_that_charts_fall_back_to_is_there_in_bold_too(env):
    share = env / "share" / "matplotlib"
    (listing,) = share.glob("fontlist-v*.json")
    weights: dict[str, set[int]] = {}
    for font in json.loads(listing.read_text())["ttflist"]:
        weights.setdefault(font["name"], set()).add(font["weight"])
    (line,) = [line for line in (share / "matplotlibrc").read_text().splitlines() if line.startswith("font.family:")]
    generic, *families = line.removeprefix("font.family: ").split(", ")
    assert generic == "sans-serif"
    assert "DejaVu Sans" in families
    assert all({400, 600, 700} <= weights[family] for family in families)
