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
from scripts.docs_tables import reasons_of_node_packages, reasons_of_python_packages
from tests.environment.package_sizes import node_sizes, python_sizes

from cloche.environment import MANIFEST, fingerprint, interpreter, is_built, is_slim, location, node_packages, wheels

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
    lines = [Requirement(line) for line in re.findall(r"(?m)^([a-z0-9-]+==[^\\\n]+)", lock)]
    locked = {each.name: str(each.specifier)[2:] for each in lines if each.marker is None or each.marker.evaluate()}
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
    programs = ("uv", "uvx")  # no scripts, and the same on every machine
    scripts = [path for path in (env / "bin").iterdir() if not path.is_symlink() and path.name not in programs]
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


def test_its_packages_have_the_size_that_the_docs_give(env, site_packages):
    if is_slim(env):
        pytest.skip("this is the slim environment")
    asked = re.findall(r"(?m)^[a-z0-9-]+", Path(fingerprint.__file__).with_name("packages.in").read_text())
    measured = python_sizes(env, site_packages, asked)
    stated = reasons_of_python_packages()
    if node_packages.installed(env):
        measured |= node_sizes(env / "lib" / "node_modules", reasons_of_node_packages().keys())
        stated |= reasons_of_node_packages()
    # Wheels for other processors and Pythons differ somewhat.
    wrong = {
        n: measured[n] for n, (size, _) in stated.items() if abs(measured[n] - float(size)) > 0.3 * measured[n] + 0.1
    }
    assert wrong == {}


def test_no_package_runs_code_when_python_starts(site_packages):
    """Each start of Python reads these files, so another one would slow all of them down."""
    assert {path.name for path in site_packages.glob("*.pth")} <= {"distutils-precedence.pth"}
