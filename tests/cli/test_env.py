"""`cloche env` and `--env`: environments of this host, and of a server."""

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


@pytest.fixture(scope="module")
def packages_folder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {"CLOCHE_PACKAGES_FOLDER": str(tmp_path_factory.mktemp("packages"))}


@pytest.fixture(scope="module")
def building(jail: None, packages_folder: dict[str, str], tmp_path_factory: Any) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("building"), env={"CLOCHE_WARM": "0", **packages_folder})
    yield running
    running.stop()


@pytest.fixture(params=["here", "on a server"])
def where(request: pytest.FixtureRequest, packages_folder: dict[str, str]) -> dict[str, str]:
    if request.param == "here":
        return packages_folder
    server: Server = request.getfixturevalue("building")
    return {"CLOCHE_URL": server.url, "CLOCHE_API_KEY": server.key, **packages_folder}


def env(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CLOCHE, "env", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **variables},
    )


def project(folder: Path) -> tuple[str, ...]:
    """Files for an environment, and the options that name them."""
    (folder / "requirements.txt").write_text("cowsay==6.1  # small\n")
    (folder / "data").mkdir()
    (folder / "data" / "plants.csv").write_text("fern\n")
    (folder / "data" / "hello").write_text("#!/bin/sh\necho moin\n")
    (folder / "data" / "hello").chmod(0o755)
    (folder / "data" / "link").symlink_to("/etc/passwd")
    (folder / "setup.sh").write_text("#!/bin/bash\necho from the setup\ntouch made\n")
    options = ["-r", "requirements.txt", "--file", "data/", "--setup", "setup.sh", "--import", "cowsay,json"]
    return (*options, "--set", "GREETING=moin")


SHOW = "import cowsay, os; print(cowsay.__version__, os.environ['GREETING'], sorted(os.listdir('data')))"


def test_an_environment_is_built_from_files_of_the_caller_and_used(
    jail: None, tmp_path: Path, where: dict[str, str]
) -> None:
    done = env(tmp_path, "create", "report:v1", *project(tmp_path), **where)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("report:v1: 1 package, ")
    assert "from the setup" in done.stderr.splitlines()
    ran = run(tmp_path, "--env", "report:v1", "--env", "GREETING=servus", "-c", SHOW, **where)
    assert ran.stdout == "6.1 servus ['hello', 'plants.csv']\n", ran.stderr
    assert run(tmp_path, "--env", "report:v1", "-l", "bash", "-c", "data/hello", **where).stdout == "moin\n"

    listed = json.loads(env(tmp_path, "list", "--json", **where).stdout)
    [found] = [each for each in listed if each["name"] == "report:v1"]
    assert (found["imports"], [each["name"] for each in found["packages"]]) == (["cowsay", "json"], ["cowsay"])
    assert "report:v1" in env(tmp_path, "list", **where).stdout
    assert "  cowsay 6.1" in env(tmp_path, "show", "report:v1", **where).stdout.splitlines()
    bill = json.loads(env(tmp_path, "sbom", "report:v1", **where).stdout)
    assert bill["components"][0]["purl"] == "pkg:pypi/cowsay@6.1"
    again = env(tmp_path, "create", "report:v1", "--from-lock", "--json", **where)
    assert json.loads(again.stdout)["packages"] == found["packages"], again.stderr
    assert env(tmp_path, "remove", "report:v1", **where).returncode == 0
    assert "There is no environment report:v1" in env(tmp_path, "show", "report:v1", **where).stderr


def test_a_build_that_fails_shows_its_log_and_the_reason(jail: None, tmp_path: Path, where: dict[str, str]) -> None:
    (tmp_path / "setup.sh").write_text("echo begun\necho no more >&2\nfalse\n")
    done = env(tmp_path, "create", "failing", "--setup", "setup.sh", **where)
    assert done.returncode == 125
    assert "begun" in done.stderr
    assert "A step of the build failed: the setup script: no more" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["create", "Report"], "cannot be the name of an environment"),
        (["create", "x", "--file", "nothing"], "nothing cannot be read: No such file or directory"),
        (["create", "x", "--import", "a b"], "is not the name of a module"),
        (["create", "x", "--set", "A"], "is not of the form K=V"),
        (["create", "x", "-r", "requirements.txt"], "Line 1 of the requirements"),
        (["show", "nothing"], "There is no environment nothing"),
        (["remov", "x"], "There is no command 'remov'"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(
    jail: None, tmp_path: Path, packages_folder: dict[str, str], words: list[str], sentence: str
) -> None:
    (tmp_path / "requirements.txt").write_text("-e .\n")
    done = env(tmp_path, *words, **packages_folder)
    assert done.returncode in (2, 125)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_an_audit_uses_the_catalogue_that_was_taken_over(
    jail: None, tmp_path: Path, packages_folder: dict[str, str]
) -> None:
    assert env(tmp_path, "create", "audited", "--with", "cowsay==6.1", **packages_folder).returncode == 0
    clean = env(tmp_path, "audit", "audited", **packages_folder)
    assert (clean.returncode, "There is no catalogue" in clean.stdout) == (0, True), clean.stderr
    entry = {
        "id": "MAL-2026-1",
        "summary": "it steals",
        "affected": [{"package": {"ecosystem": "PyPI", "name": "cowsay"}, "versions": ["6.1"]}],
    }
    (tmp_path / "entry.json").write_text(json.dumps(entry))
    updated = env(tmp_path, "catalogue", "update", "entry.json", **packages_folder)
    assert updated.returncode == 0, updated.stderr
    found = env(tmp_path, "audit", "audited", **packages_folder)
    assert found.returncode == 1
    assert "MALICIOUS: cowsay 6.1: MAL-2026-1 it steals" in found.stdout
    assert "updated less than a day ago" in found.stdout


def test_two_environments_are_refused(jail: None, tmp_path: Path) -> None:
    assert "names two environments" in run(tmp_path, "--env", "a", "--env", "b", "-c", "1").stderr
