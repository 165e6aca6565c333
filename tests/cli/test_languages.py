"""`cloche languages`: the list, and getting what is missing, as a shell uses it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.languages.toolchains import is_here

import cloche
from cloche import languages
from cloche.languages import install, preparation

SOURCE = Path(cloche.__file__).parent
STATES = {"ready", "old", "installable", "unavailable"}


def run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cloche.cli.main", *words]
    return subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=60)


def test_every_language_has_a_row() -> None:
    done = run("languages")
    rows = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert rows[0].split() == ["language", "version", "state", "runs", "as", "where"]
    assert [row.split("  ")[0] for row in rows[1:]] == [language.title for language in languages.everything()]
    (bash,) = [row for row in rows if row.startswith("Bash")]
    assert bash.split()[1][0].isdigit()
    assert bash.split()[2:5] == ["ready", "program,", "session"]


def test_json_has_the_same_for_programs() -> None:
    rows = {row["name"]: row for row in json.loads(run("languages", "--json").stdout)}
    assert list(rows) == languages.names()
    assert {row["state"] for row in rows.values()} <= STATES
    assert rows["python"]["version"].startswith("3.")
    for row in rows.values():
        assert bool(row["version"]) == (row["state"] in ("ready", "old"))
        assert bool(row["why"]) == bool(row["remedy"])
        assert row["state"] == "ready" or row["why"]


def test_a_terminal_gets_a_table() -> None:
    reader, terminal = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "cloche.cli.main", "languages"],
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"},
            stdout=terminal,
            timeout=60,
            check=True,
        )
        text = os.read(reader, 1 << 16).decode()
    finally:
        os.close(terminal)
        os.close(reader)
    assert "\x1b[32mready" in text


def test_the_server_says_the_same(http: httpx2.Client) -> None:
    rows = {row["name"]: row for row in http.get("/v1/languages").json()["items"]}
    assert list(rows) == languages.names()
    assert rows["bash"]["state"] == "ready"
    assert rows["bash"]["version"] == json.loads(run("languages", "--json").stdout)[0]["version"]
    assert rows["bash"]["extensions"][0] == ".sh"
    assert rows["bash"]["hello"] == languages.find("bash").hello


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("install",), "needs the names of languages"),
        (("install", "go", "--all"), "needs the names of languages"),
        (("install", "klingon"), "'klingon' is unknown"),
        (("prepare", "klingon"), "'klingon' is unknown"),
        (("remove", "go"), "'remove' is no value of"),
    ],
)
def test_what_makes_no_sense_is_said(words: tuple[str, ...], said: str) -> None:
    done = run("languages", *words)
    assert said in done.stderr
    assert done.returncode in (2, 125)
    assert "Traceback" not in done.stderr


def test_what_is_here_is_not_installed_again() -> None:
    done = run("languages", "install", "sh", "bash")
    assert done.stderr.count("is already installed") == 1
    assert done.returncode == 0


def test_a_language_that_apt_does_not_have_is_reported() -> None:
    if is_here("julia"):
        pytest.skip("Julia is on this host")
    done = run("languages", "install", "julia")
    assert done.returncode == 1
    assert "Julia is unavailable" in done.stderr
    assert "juliaup" in done.stderr


# A language of our own making, whose tools a stand-in for apt-get brings

DEFINITION = '''"""Quine: prints its source."""

import os

from cloche.languages.language import Language, Preparation
from cloche.languages.toolchain import FoundTools, Toolchain


def make(found: FoundTools, folder: str) -> None:
    """Say that it was made; or fail, as the test wants."""
    if os.environ.get("QUINE_FAILS"):
        raise OSError("there is no room")
    with open(os.path.join(folder, "made"), "w") as file:
        file.write("made ahead")


LANGUAGE = Language(
    name="quine_test",
    title="Quine",
    main="main.quine",
    extensions=(".quine",),
    aliases=("qn",),
    toolchain=Toolchain(programs=("quine",), least="2.0", apt=("quine-tools", "libquine")),
    command=("quine",),
    preparation=Preparation("nothing much", make),
    hello="hello",
)
'''
QUINE = """#!/bin/sh
[ "$1" = --version ] && { echo "quine 2.3.4"; exit; }
cat "$1"
"""
# Succeeds only after an update, as on a machine whose lists were never fetched.
APT = """#!/bin/sh
echo "$*" >>"$QUINE_HOME/asked"
case "$*" in
    *update*) touch "$QUINE_HOME/updated" ;;
    *broken*) echo "E: Unable to locate package broken"; exit 100 ;;
    *install*)
        [ -e "$QUINE_HOME/updated" ] || { echo "E: no lists"; exit 100; }
        echo "dlstatus:1:50.0:Retrieving file 1"
        echo "pmstatus:quine-tools:40.0:Unpacking quine-tools"
        mkdir -p "$QUINE_HOME/tools/bin"
        cp "$QUINE_HOME/quine" "$QUINE_HOME/tools/bin/quine"
        chmod 755 "$QUINE_HOME/tools/bin/quine" ;;
esac
"""


@pytest.fixture
def quine(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A copy of Cloche with one language more, and a machine that has apt-get but not that language."""
    copy = tmp_path / "src" / "cloche"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("built", "templates"))
    (copy / "languages/quine_test").mkdir()
    (copy / "languages/quine_test/definition.py").write_text(DEFINITION)
    (tmp_path / "quine").write_text(QUINE)
    stand_ins = tmp_path / "stand-ins"
    stand_ins.mkdir()
    (stand_ins / "apt-get").write_text(APT)
    (stand_ins / "apt-get").chmod(0o755)
    yield {
        "PYTHONPATH": str(copy.parent),
        "PATH": f"{stand_ins}:{tmp_path}/tools/bin:/usr/bin:/bin",
        "QUINE_HOME": str(tmp_path),
    }
    for left in Path(preparation.location()).glob("quine_test-*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as apt does")


@as_root
def test_one_file_is_a_language_and_install_brings_its_tools(jail: None, quine: dict[str, str], tmp_path: Path) -> None:
    program = tmp_path / "a.quine"
    program.write_text("I am what I am\n")

    before = run("run", str(program), env=quine)
    assert before.returncode == 127
    assert "Quine is not installed on this host." in before.stderr
    assert "`cloche languages install quine_test`" in before.stderr
    assert "installable" in run("languages", env=quine).stdout

    done = run("languages", "install", "QN", env=quine)
    assert done.returncode == 0, done.stderr
    assert "Installing Quine (apt: quine-tools libquine)" in done.stderr
    assert "Preparing Quine: nothing much" in done.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["libquine", "update", "libquine"]
    assert "install -y --no-install-recommends -- quine-tools libquine" in asked[0]

    (row,) = [row for row in json.loads(run("languages", "--json", env=quine).stdout) if row["name"] == "quine_test"]
    assert (row["state"], row["version"], row["prepared"]) == ("ready", "2.3.4", True)
    after = run("run", str(program), env=quine)
    assert (after.stdout, after.returncode) == ("I am what I am\n", 0)
    assert run("languages", "prepare", env=quine).stderr.count("Quine") == 0


@as_root
def test_a_process_that_looked_too_early_is_asked_to_restart(jail: None, quine: dict[str, str], tmp_path: Path) -> None:
    code = f"""
import cloche, os, shutil
def error():
    return cloche.run("hello", language="quine_test").error
print(error().message)
os.makedirs("{tmp_path}/tools/bin")
shutil.copy("{tmp_path}/quine", "{tmp_path}/tools/bin/quine")
os.chmod("{tmp_path}/tools/bin/quine", 0o755)
print(error().kind, error().message, error().hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=quine, timeout=60)
    assert done.stdout.splitlines() == [
        "Quine is not installed on this host.",
        "unavailable Quine was installed after this process had begun to make sandboxes. "
        "Start it anew: the server, or your own program.",
    ], done.stderr


@as_root
def test_a_language_that_cannot_be_prepared_is_only_slower(quine: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "updated").touch()
    quine["QUINE_FAILS"] = "1"
    assert run("languages", "install", "quine_test", env=quine).returncode == 0
    (row,) = [row for row in json.loads(run("languages", "--json", env=quine).stdout) if row["name"] == "quine_test"]
    assert (row["state"], row["prepared"]) == ("ready", False)
    assert "cloche languages prepare quine_test" in row["remedy"]
    done = run("languages", "prepare", "quine_test", env=quine)
    assert done.returncode == 1
    assert "Quine could not be prepared, so it starts slower: there is no room" in done.stderr
    (tmp_path / "tools/bin/quine").write_text(QUINE.replace("2.3.4", "1.9"))
    (row,) = [row for row in json.loads(run("languages", "--json", env=quine).stdout) if row["name"] == "quine_test"]
    assert (row["state"], row["version"]) == ("old", "1.9")
    assert "older than 2.0" in row["why"]


@as_root
def test_progress_goes_forward_and_a_failure_is_reported(
    quine: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "QUINE_HOME"):
        monkeypatch.setenv(name, quine[name])
    heard: list[tuple[float, str]] = []
    install.install(["quine-tools"], lambda done, what: heard.append((done, what)))
    assert heard == [
        (0.0, "Updating the package lists"),
        (0.25, "Retrieving file 1"),
        (0.7, "Unpacking quine-tools"),
    ]
    with pytest.raises(cloche.Misconfigured, match="Unable to locate package broken"):
        install.install(["broken"])


def test_without_permission_the_command_is_printed() -> None:
    code = """if True:
        import os, shutil, subprocess
        from cloche.errors import ClocheError
        from cloche.languages import install
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            install.install(["quine-tools"])
        except ClocheError as problem:
            print(problem.message, problem.hint)
    """
    with tempfile.TemporaryDirectory() as folder:  # which nobody may look into, unlike `tmp_path`
        Path(folder).chmod(0o755)
        (Path(folder) / "apt-get").write_text(APT)
        (Path(folder) / "apt-get").chmod(0o755)
        env = {**os.environ, "PATH": folder}  # without sudo
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert "needs root" in done.stdout, done.stderr
    assert "apt-get install --no-install-recommends quine-tools" in done.stdout
