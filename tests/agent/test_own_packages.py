"""Packages that are installed inside a sandbox: pip, npm and virtual environments, and who can import them."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Iterator

import pytest

import cloche

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
PLACE = f".local/lib/{VERSION}/site-packages"


def wheel(name: str, version: str, code: str = "") -> dict[str, bytes]:
    """The file of a wheel, with a script that prints the version."""
    info = f"{name}-{version}.dist-info"
    texts = {
        f"{name}/__init__.py": f"VERSION = '{version}'\ndef main(): print('script', VERSION)\n{code}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\nrun-{name} = {name}:main\n",
    }
    texts[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in texts)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in texts.items():
            archive.writestr(path, text)
    return {f"{name}-{version}-py3-none-any.whl": data.getvalue()}


def npm_package(name: str) -> dict[str, bytes]:
    description = {"name": name, "version": "1.0.0", "main": "main.js", "bin": {name: "cli.js"}}
    texts = {
        "package/package.json": json.dumps(description),
        "package/main.js": "module.exports = 'module'",
        "package/cli.js": "#!/usr/bin/env node\nconsole.log('command')",
    }
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, text in texts.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return {f"{name}.tgz": data.getvalue()}


@pytest.fixture(scope="module")
def box(jail: None) -> Iterator[cloche.Sandbox]:
    """A sandbox in which the first test installs a package for the others."""
    with cloche.Sandbox(timeout=120) as box:
        for wheels in (wheel("greeting", "1.0"), wheel("greeting", "2.0"), wheel("six", "99.0")):
            for name, data in wheels.items():
                box.files.write(name, data)
        yield box


def test_a_wheel_can_be_installed_and_imported_in_one_cell(box):
    before = box.checkpoint()
    result = box.run(
        "try:\n    import greeting\n"
        "except ModuleNotFoundError:\n    print('missing')\n"  # Python remembers that the folder does not exist
        "!pip install -q ./greeting-1.0-py3-none-any.whl\n"
        "import greeting; print(greeting.VERSION)"
    )
    assert (result.error, result.stdout) == (None, "missing\n1.0\n")
    assert box.commands.run(f"ls {PLACE}").stdout.split() == ["greeting", "greeting-1.0.dist-info"]
    box.restore(before)
    assert box.run("import importlib.util; print(importlib.util.find_spec('greeting'))").stdout == "None\n"


def test_commands_scripts_and_other_cells_have_the_package(box):
    assert box.commands.run("python -m pip install -q --user ./greeting-1.0-py3-none-any.whl").error is None
    assert box.run("import greeting; greeting.VERSION").text == "'1.0'"
    shell = "python3 -c 'import greeting; print(greeting.VERSION)'; run-greeting"
    assert box.run(shell, language="bash").stdout == "1.0\nscript 1.0\n"
    assert box.commands.run(shell).stdout == "1.0\nscript 1.0\n"
    listed = box.commands.run("pip list --user --format freeze; pip show greeting").stdout
    assert listed.startswith("greeting==1.0\nName: greeting\n")
    assert f"/sandbox/{PLACE}" in listed


def test_a_newer_version_replaces_an_older_one_also_of_the_environment(box):
    done = box.commands.run(
        "pip install -q ./greeting-2.0-py3-none-any.whl ./six-99.0-py3-none-any.whl && run-greeting"
    )
    assert (done.error, done.stdout) == (None, "script 2.0\n")
    ask = "python -c 'import six; print(six.__file__)'"
    assert box.commands.run(ask).stdout == f"/sandbox/{PLACE}/six/__init__.py\n"
    done = box.commands.run("pip uninstall -q -y six greeting; which run-greeting")
    assert done.stdout == done.stderr == ""
    assert box.commands.run(ask).stdout == f"/opt/env/lib/{VERSION}/site-packages/six.py\n"


def test_a_project_can_be_installed_as_editable(box):
    box.files.write("project/pyproject.toml", '[project]\nname = "editable"\nversion = "1"\n')
    box.files.write("project/src/editable/__init__.py", "VALUE = 7\n")
    cell = box.run("%pip install -q -e ./project\nimport editable; print(editable.__file__, editable.VALUE)")
    assert cell.error is None
    assert cell.stdout.endswith("/sandbox/project/src/editable/__init__.py 7\n")
    assert box.run("python3 -c 'import editable; print(editable.VALUE)'", language="bash").stdout == "7\n"


def test_target_installs_elsewhere(box):
    done = box.commands.run("pip install -q --target elsewhere ./greeting-1.0-py3-none-any.whl && ls elsewhere")
    assert done.stdout.split() == ["bin", "greeting", "greeting-1.0.dist-info"]


def test_virtual_environments_see_the_environment_if_asked(box):
    ask = "from importlib.util import find_spec; print(bool(find_spec('numpy')), bool(find_spec('editable')))"
    make = f'python -m venv --without-pip {{}} bare && bare/bin/python -c "{ask}"'
    assert box.commands.run(make.format("--system-site-packages")).stdout == "True True\n"
    assert box.commands.run(make.format("--clear")).stdout == "False False\n"


def test_npm_installs_a_file_here_and_for_all(box):
    if box.commands.run("npm --version").error is not None:
        pytest.skip("npm is not installed on this host")
    for name, data in npm_package("sprout").items():
        box.files.write(name, data)
    done = box.commands.run("npm install --silent ./sprout.tgz && node -p 'require(\"sprout\")'")
    assert (done.error, done.stdout) == (None, "module\n")
    done = box.commands.run("npm install --silent --global ./sprout.tgz && cd /tmp && sprout")
    assert (done.error, done.stdout) == (None, "command\n")


def test_a_program_can_install_a_package_and_import_it(jail):
    program = (
        "import subprocess, sys\n"
        "command = [sys.executable, '-m', 'pip', 'install', '-q', './greeting-1.0-py3-none-any.whl']\n"
        "subprocess.run(command, check=True)\n"
        "import greeting; print(greeting.VERSION)"
    )
    result = cloche.run(program, files=wheel("greeting", "1.0"), timeout=60)
    assert (result.error, result.stdout) == (None, "1.0\n")


def test_a_program_gets_the_installed_version_of_a_library_that_was_preloaded(jail):
    own = {f"{PLACE}/pandas/__init__.py": "VERSION = 'own'\n", f"{PLACE}/more.pth": "/sandbox/more\n"}
    program = "import sys, pandas; print(pandas.VERSION, '/sandbox/more' in sys.path)"
    with cloche.Sandbox():  # a nursery that has imported pandas
        result = cloche.run(program, files={**own, "more/a.py": ""})
    assert (result.error, result.stdout) == (None, "own True\n")


def test_the_agent_runs_no_code_of_the_packages(jail):
    note = "import os; open('/sandbox/ran', 'a').write(f'{os.getpid()} ')"
    with cloche.Sandbox() as box:
        for name in ("usercustomize.py", "sitecustomize.py", "planted.pth", "readline.py"):
            box.files.write(f"{PLACE}/{name}", f"{note}\n")
        box.checkpoint()
        box.run("1")
        box.commands.run("python3 -c 1")
        ran = box.files.read("ran").decode().split()
        assert len(ran) >= 3  # they do run, in kernels and programs
        assert "1" not in ran
