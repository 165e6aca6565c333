"""`cloche run --with`, the block of packages at the top of a script, and `cloche packages search`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import CLOCHE, run
from tests.conftest import Server

from cloche.cli.script_packages import packages_of
from cloche.errors import InvalidRun

PACKAGE, VERSION = "humanize", "4.9.0"
PINNED = f"{PACKAGE}=={VERSION}"
SHOW = f"import {PACKAGE}; print({PACKAGE}.__version__)"
MISSING = f"No module named '{PACKAGE}'"


def script(bound: str = ">=3.11", packages: str = f'["{PINNED}"]') -> str:
    return f'# /// script\n# requires-python = "{bound}"\n# dependencies = {packages}\n# ///\n{SHOW}\n'


@pytest.fixture(scope="module")
def packages_folder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The setting that keeps these tests' packages apart from everybody's."""
    return {"CLOCHE_PACKAGES_FOLDER": str(tmp_path_factory.mktemp("packages"))}


@pytest.fixture(scope="module")
def installing(jail: None, packages_folder: dict[str, str], tmp_path_factory: Any) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("installing"), env={"CLOCHE_WARM": "0", **packages_folder})
    yield running
    running.stop()


@pytest.fixture(params=["here", "on a server"])
def where(request: pytest.FixtureRequest, packages_folder: dict[str, str]) -> dict[str, str]:
    """The variables for a run here, and for one on a server."""
    if request.param == "here":
        return packages_folder
    server: Server = request.getfixturevalue("installing")
    return {"CLOCHE_URL": server.url, "CLOCHE_API_KEY": server.key}


def test_a_program_can_import_the_packages_of_the_option(jail: None, tmp_path: Path, where: dict[str, str]) -> None:
    done = run(tmp_path, "--with", PINNED, "--with", "inflection>=0.5", "-c", f"import inflection; {SHOW}", **where)
    assert (done.stdout, done.returncode) == (f"{VERSION}\n", 0), done.stderr
    assert MISSING in run(tmp_path, "-c", SHOW, **where).stderr  # the next sandbox does not have it


def test_the_block_at_the_top_of_a_script_is_obeyed(jail: None, tmp_path: Path, where: dict[str, str]) -> None:
    (tmp_path / "main.py").write_text(script())
    assert run(tmp_path, "main.py", **where).stdout == f"{VERSION}\n"
    without = run(tmp_path, "--no-script-packages", "main.py", **where)
    assert (MISSING in without.stderr, without.returncode) == (True, 1)


def test_a_package_that_cannot_be_had_is_an_error_of_cloche(jail: None, tmp_path: Path, where: dict[str, str]) -> None:
    done = run(tmp_path, "--with", "no such name", "-c", "print('ran')", **where)
    assert (done.stdout, done.returncode) == ("", 125)
    assert "no such name" in done.stderr


def test_the_operators_policy_is_obeyed(jail: None, tmp_path: Path) -> None:
    done = run(tmp_path, "--with", PINNED, "-c", "print('ran')", CLOCHE_PACKAGES="none")
    assert (done.stdout, done.returncode) == ("", 125)
    assert "packages.allow" in done.stderr


def test_a_script_for_another_python_is_refused_before_anything_runs() -> None:
    assert packages_of(script(">=3.11,<4"), is_here=True) == (PINNED,)
    assert packages_of(script(packages="[]"), is_here=True) == ()
    with pytest.raises(InvalidRun, match=r"needs Python >=3\.99, and sandboxes have Python 3\.") as problem:
        packages_of(script(">=3.99"), is_here=True)
    assert "--no-script-packages" in problem.value.hint
    assert packages_of(script(">=3.99"), is_here=False) == (PINNED,)  # a server has its own
    with pytest.raises(InvalidRun, match="requires-python"):
        packages_of(script("new"), is_here=False)
    with pytest.raises(InvalidRun):
        packages_of("# /// script\n# dependencies = [\n# ///\n", is_here=True)


def test_a_new_shell_on_a_server_has_packages_and_an_old_one_refuses_them(installing: Server) -> None:
    def shell(*words: str) -> subprocess.CompletedProcess[str]:
        command = [CLOCHE, "shell", "--with", PINNED, "--url", installing.url, "--api-key", installing.key, *words]
        return subprocess.run(
            command, input=f'python3 -c "{SHOW}"\n', capture_output=True, text=True, timeout=90, check=False
        )

    done = shell()
    assert (done.stdout, done.returncode) == (f"{VERSION}\n", 0), done.stderr
    refused = shell("sbx_1")
    assert (refused.stdout, refused.returncode) == ("", 125)
    assert "--with" in refused.stderr


def test_a_search_prints_names_versions_and_descriptions(jail: None, where: dict[str, str]) -> None:
    def search(*words: str) -> subprocess.CompletedProcess[str]:
        command = [CLOCHE, "packages", "search", *words]
        env = {**os.environ, **where}
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=env)

    found = search(PACKAGE)
    assert found.stdout.startswith(f"{PACKAGE} "), found.stderr
    listed = json.loads(search(PACKAGE, "--json").stdout)
    assert listed["items"][0]["name"] == PACKAGE
    nothing = search("nobody-has-published-such-a-package")
    assert (nothing.stdout, nothing.returncode) == ("", 1)
    assert "No package was found" in nothing.stderr
