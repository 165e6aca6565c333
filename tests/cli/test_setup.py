"""`cloche setup`, and the first start of a package for which nothing was built yet."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually

import cloche
from cloche import environment

SOURCE = Path(cloche.__file__).parent


class Package:
    """The code as pip would install it, in a virtual environment of its own; the package index does not answer."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix = folder, folder / "venv"
        venv.create(self.prefix, symlinks=True)
        ours = folder / "site-packages"
        shutil.copytree(SOURCE, ours / "cloche", ignore=shutil.ignore_patterns("__pycache__", "built"))
        dependencies = next(path for path in sys.path if path.endswith("site-packages"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLOCHE_", "PIP_", "XDG_"))}
        self.env = {
            **kept,
            "PYTHONPATH": f"{ours}:{dependencies}",
            "XDG_DATA_HOME": str(folder / "data"),
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",  # nobody listens there
            "PIP_RETRIES": "0",
        }
        self.command = [str(self.prefix / "bin" / "python"), "-m", "cloche.cli.main"]

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *words], env=self.env, capture_output=True, text=True, timeout=100, check=False, **more
        )

    def location(self) -> Path:
        asking = "import cloche.environment as e; print(e.location())"
        done = subprocess.run(
            [self.command[0], "-c", asking], env=self.env, capture_output=True, text=True, check=True, timeout=60
        )
        return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return Package(tmp_path_factory.mktemp("package"))


def test_a_package_keeps_its_environment_in_the_users_data_folder(package: Package) -> None:
    place = package.location()
    assert place.parent == package.folder / "data" / "cloche" / "environments"
    assert place.name.endswith(sys.base_prefix.replace("/", "-")), "each interpreter has its own"


def test_an_environment_that_all_users_share_comes_first(package: Package) -> None:
    shared = package.prefix / "lib" / "cloche" / Path(environment.location()).name
    shared.mkdir(parents=True)
    assert package.location() != shared, "it is not complete"
    (shared / environment.MANIFEST).write_text("{}")
    try:
        assert package.location() == shared
    finally:
        shutil.rmtree(shared.parent)


@pytest.mark.parametrize("words", [("run", "-c", "print(1)"), ("serve", "--port", "0"), ("setup",)])
def test_the_first_start_tells_the_size_and_fails_with_a_sentence_without_a_network(
    package: Package, words: tuple[str, ...]
) -> None:
    done = package.run(*words)
    assert done.returncode == 125
    assert done.stdout == ""
    assert re.search(r"about 500 MB to download, 2100 MB on the disk, 3 to 7 minutes\.", done.stderr)
    (complaint,) = [line for line in done.stderr.splitlines() if line.startswith("cloche: ")]
    assert re.search(r"could not be built: \S+ \S+ could not be downloaded: No matching distribution", complaint)
    assert "cloche setup --from FOLDER" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_mcp_client_is_answered_at_once_and_learns_what_is_missing(package: Package) -> None:
    call = {"name": "code_execution", "arguments": {"code": "print(1)"}}
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    with subprocess.Popen(
        [*package.command, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=package.env,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(*map(json.dumps, messages), sep="\n", file=process.stdin, flush=True)
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, log = process.communicate(timeout=60)  # until the build in the background has ended, too
    assert rest == ""
    assert "Python environment" in json.dumps(answers[1])
    assert "about 500 MB to download" in log


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "/nowhere"), "/nowhere is not a folder."),
        (("--from", "."), "lacks the wheels of "),
        (("--download", "x", "--from", "y"), "--download only fills a folder"),
    ],
)
def test_a_folder_that_cannot_be_used_is_named(package: Package, words: tuple[str, ...], message: str) -> None:
    done = package.run("setup", *words, cwd=package.folder)
    assert done.returncode == 125
    assert message in done.stderr


def test_a_data_folder_that_cannot_be_written_is_named(package: Package) -> None:
    done = subprocess.run(
        [*package.command, "setup", "--slim"],
        env={**package.env, "XDG_DATA_HOME": "/proc/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 125
    assert "/proc/nowhere/cloche/environments cannot be written; name another folder" in done.stderr


def test_an_environment_that_is_complete_is_not_built_again(jail: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from cloche.cli.setup import ensure; ensure()"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_a_terminal_sees_a_bar() -> None:
    program = """if True:
        from cloche.cli import setup
        setup._run(lambda progress: (progress.step("downloading"), progress.count(1, 2, 3 << 20)))
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env={**os.environ, "COLUMNS": "120"})
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(ours, 4096):
            seen += data
    except OSError:
        pass  # the terminal is closed
    os.close(ours)
    assert process.wait(30) == 0
    assert "1 of 2 packages, 3 MB" in seen.decode()
    assert "━" in seen.decode()


def test_the_first_run_of_a_package_writes_its_bundles(jail: None, package: Package) -> None:
    bundles = package.folder / "site-packages" / "cloche" / "__pycache__"
    shutil.rmtree(bundles, ignore_errors=True)
    bundles.mkdir()
    env = {**package.env, "CLOCHE_ENVIRONMENT": environment.location()}
    done = subprocess.run(
        [*package.command, "run", "-c", "print(1)"], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "1\n", done.stderr
    eventually(lambda: len(list(bundles.glob("*.bundle"))) == 4)


def test_the_command_of_a_package_is_replaced_by_a_quicker_one(jail: None, package: Package) -> None:
    command = package.prefix / "bin" / "cloche"
    installed = "import re\nimport sys\nfrom cloche.cli.main import main\nsys.exit(main())\n"
    command.write_text(f"#!{package.command[0]}\n{installed}")
    command.chmod(0o755)
    improve = [package.command[0], "-c", "from cloche.cli.setup import speed_up; speed_up()"]
    subprocess.run(improve, env=package.env, check=True, timeout=60)
    assert command.read_text().startswith(f"#!{package.prefix}/bin/python -S\n")
    env = {**package.env, "CLOCHE_ENVIRONMENT": environment.location()}
    for words, expected in ((["run", "-c", "print(1)"], "1\n"), (["--version"], f"cloche {cloche.__version__}\n")):
        done = subprocess.run([str(command), *words], env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == expected, done.stderr
