"""Packages of the index in sandboxes: by `packages=`, `box.packages`, and the programs that people type."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import cloche
from cloche.model.packages import requirements_of
from cloche.packages import of_this_host
from cloche.packages.broker import Broker
from cloche.packages.policy import PackagePolicy

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def shared(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(timeout=120) as box:
        yield box


# --- at creation


def test_a_package_is_importable_when_the_code_starts(jail: None) -> None:
    result = cloche.run("import cowsay; print(cowsay.__version__)", packages=["cowsay==6.1"])
    assert result.stdout == "6.1\n", result


def test_a_sandbox_has_its_packages_before_its_first_cell(jail: None) -> None:
    with cloche.Sandbox(packages=["cowsay==6.1", "iniconfig"]) as box:
        assert box.run("import cowsay; cowsay.__version__").text == "'6.1'"
        assert [each.name for each in box.packages.list() if each.source == "sandbox"] == ["cowsay"]


async def test_asyncio_has_them_as_well(jail: None) -> None:
    result = await cloche.async_run("import cowsay; print(cowsay.__version__)", packages=["cowsay==6.1"])
    assert result.stdout == "6.1\n"


def test_an_extra_brings_what_it_needs(jail: None) -> None:
    result = cloche.run("import socks, requests; print('both')", packages=["requests[socks]"])
    assert result.stdout == "both\n", result


def test_a_package_goes_before_the_default_one(jail: None) -> None:
    code = "import tabulate, importlib.metadata; print(tabulate.__version__, importlib.metadata.version('tabulate'))"
    assert cloche.run(code, packages=["tabulate==0.8.10"]).stdout == "0.8.10 0.8.10\n"
    assert cloche.run(code).stdout != "0.8.10 0.8.10\n"


def test_packages_of_one_namespace_are_found_together(jail: None) -> None:
    names = ["zope.event", "zope.interface"]
    code = "import zope.event, zope.interface; print('both')"
    assert cloche.run(code, packages=names).stdout == "both\n"
    with cloche.Sandbox() as box:
        for name in names:
            box.packages.install(name)
        assert box.run(code).stdout == "both\n"
        assert box.commands.run("pip uninstall -y zope.event").exit_code == 0
        assert box.commands.run("python3 -c 'import zope.interface'").exit_code == 0
        assert box.commands.run("python3 -c 'import zope.event'").exit_code == 1


def test_nothing_is_made_where_a_package_does_not_exist(jail: None) -> None:
    with pytest.raises(cloche.InvalidRun, match="no-such-package-of-cloche was not found"):
        cloche.run("print(1)", packages=["no-such-package-of-cloche"])


def test_a_request_that_is_too_large_is_refused_with_its_size(jail: None) -> None:
    with pytest.raises(cloche.Refused, match=r"The packages are [\d,]+ MB to download, and 100 MB are allowed"):
        cloche.run("print(1)", packages=["torch"])


# --- in a living sandbox


@pytest.mark.parametrize(
    "command", ["!pip install -q cowsay", "%pip install -q cowsay", "!python3 -m pip install -q cowsay"]
)
def test_the_next_line_of_a_cell_can_import(shared: cloche.Sandbox, command: str) -> None:
    shared.packages.uninstall("cowsay")
    before = shared.checkpoint()
    try:
        assert shared.run("import cowsay").error is not None
        result = shared.run(f"{command}\nimport cowsay; cowsay.__version__")
        assert result.error is None
        assert result.text == "'6.1'"
    finally:
        shared.restore(before)


def test_restoring_a_checkpoint_undoes_an_install(shared: cloche.Sandbox) -> None:
    shared.packages.uninstall("cowsay")  # which an earlier test may have installed
    before = shared.checkpoint()
    shared.packages.install("cowsay")
    assert shared.run("import cowsay").error is None
    shared.restore(before)
    assert shared.run("import cowsay").error is not None
    assert shared.packages.install("cowsay").packages[0].version == "6.1"
    assert shared.run("import cowsay").error is None
    shared.restore(before)


def test_commands_and_terminals_install(shared: cloche.Sandbox) -> None:
    done = shared.commands.run("pip install cowsay && cowsay -t hello && which cowsay")
    assert "Successfully installed cowsay-6.1" in done.stdout
    assert "| hello |" in done.stdout
    assert done.stdout.endswith("/sandbox/.local/bin/cowsay\n")
    assert shared.commands.run("uv pip install humanize && python3 -c 'import humanize'").exit_code == 0
    assert "already satisfied: cowsay" in shared.commands.run("pip install cowsay").stdout
    process = shared.commands.start("pip install roman", pty=True)
    assert process.wait().exit_code == 0
    assert shared.commands.run("python3 -c 'import roman'").exit_code == 0


def test_a_requirements_file_is_installed(shared: cloche.Sandbox) -> None:
    shared.files.write("requirements.txt", "# what we need\ncowsay==6.1  # pinned\niniconfig >= 2\n")
    done = shared.commands.run("pip install -r requirements.txt")
    assert done.exit_code == 0
    assert "cowsay" in done.stdout


def test_what_pip_says_is_true(shared: cloche.Sandbox) -> None:
    shared.packages.install("cowsay", "humanize==4.9.0")
    assert "cowsay" in shared.commands.run("pip list").stdout
    assert "humanize==4.9.0" in shared.commands.run("pip freeze").stdout
    shown = shared.commands.run("pip show humanize").stdout
    assert "Version: 4.9.0" in shown
    assert shared.commands.run("pip check").exit_code == 0
    code = "import importlib.metadata as m; print(m.version('humanize'), len(m.files('humanize')) > 2)"
    assert shared.commands.run(["python3", "-c", code]).stdout == "4.9.0 True\n"
    removed = shared.commands.run("pip uninstall -y humanize")
    assert "Successfully uninstalled humanize-4.9.0" in removed.stdout
    assert shared.commands.run("python3 -c 'import humanize'").exit_code == 1
    assert "humanize" not in {each.name for each in shared.packages.list()}


def test_another_version_replaces_the_one_before(shared: cloche.Sandbox) -> None:
    for version in ("4.9.0", "4.10.0"):
        shared.packages.install(f"humanize=={version}")
        code = "import humanize, importlib.metadata as m; print(humanize.__version__, m.version('humanize'))"
        assert shared.commands.run(["python3", "-c", code]).stdout == f"{version} {version}\n"
    found = shared.commands.run("ls /sandbox/.local/lib/python3*/site-packages | grep -c humanize-")
    assert found.stdout == "1\n"


def test_packages_are_removed_by_name(shared: cloche.Sandbox) -> None:
    shared.packages.install("cowsay")
    assert shared.packages.uninstall("cowsay", "no-such-package") == ["cowsay"]
    assert shared.commands.run("python3 -c 'import cowsay'").exit_code == 1
    assert not shared.files.exists("/sandbox/.local/bin/cowsay")


def test_a_wheel_in_the_sandbox_is_installed_by_the_real_pip(shared: cloche.Sandbox) -> None:
    shared.commands.run("mkdir -p /tmp/here/m && cd /tmp/here && echo 'x = 1' > m/__init__.py")
    setup = "from setuptools import setup\nsetup(name='m', version='1', packages=['m'])\n"
    shared.files.write("/tmp/here/setup.py", setup)
    done = shared.commands.run("cd /tmp/here && pip install .", timeout=60)
    assert done.exit_code == 0, done.stderr
    assert shared.commands.run("python3 -c 'import m'").exit_code == 0


def test_a_refusal_reaches_the_program_that_asked(shared: cloche.Sandbox) -> None:
    done = shared.commands.run("pip install no-such-package-of-cloche")
    assert done.exit_code == 1
    assert "ERROR: The packages cannot be resolved" in done.stderr


# --- the policy


def test_installs_can_be_turned_off(jail: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_PACKAGES", "none")
    with pytest.raises(cloche.Refused, match=r"packages\.allow"):
        cloche.run("print(1)", packages=["cowsay"])
    with cloche.Sandbox() as box:
        done = box.commands.run("pip install cowsay")
        assert done.exit_code == 1
        assert "packages.allow" in done.stderr


def test_the_operators_file_decides(jail: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = tmp_path / "packages.toml"
    policy.write_text('deny = ["cowsay"]\n')
    monkeypatch.setenv("CLOCHE_PACKAGES", str(policy))
    with pytest.raises(cloche.Refused, match="The package cowsay is denied"):
        cloche.run("print(1)", packages=["cowsay"])
    policy.write_text("deny = 5\n")
    monkeypatch.setenv("CLOCHE_PACKAGES", str(tmp_path / "." / "packages.toml"))
    with pytest.raises(cloche.ClocheError, match=r"packages\.deny"):
        cloche.run("print(1)", packages=["cowsay"])


def test_the_licence_in_a_packages_files_decides(jail: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = tmp_path / "packages.json"
    policy.write_text('{"licences": ["MIT"]}')
    monkeypatch.setenv("CLOCHE_PACKAGES", str(policy))
    assert cloche.run("import humanize", packages=["humanize==4.9.0"]).error is None
    with pytest.raises(cloche.Refused, match=r"cowsay 6\.1.* has the licence .*packages\.licences"):
        cloche.run("import cowsay", packages=["cowsay==6.1"])


# --- the broker


def test_many_ask_at_once_and_one_downloads(jail: None, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    broker = Broker(str(tmp_path / "packages"), of_this_host.shared().environment)
    said: list[str] = []
    wanted = requirements_of(["cowsay==6.1"], "python")
    with ThreadPoolExecutor(20) as pool:
        provided = list(pool.map(lambda _: broker.provide(wanted, PackagePolicy(), report=said.append), range(20)))
    assert len({each.layer.name for each in provided if each.layer is not None}) == 1
    assert [text for text in said if text.startswith("Downloading")] == ["Downloading 1 of 1 packages"]
    assert said.count("Resolving packages") == 1


def test_a_file_that_is_not_what_the_index_promised_is_refused(jail: None, tmp_path: Path) -> None:
    broker = Broker(str(tmp_path / "packages"), of_this_host.shared().environment)
    wanted = requirements_of(["cowsay==6.1"], "python")
    lock = broker._resolve(wanted, PackagePolicy(), {}, lambda _: None)
    package = lock.packages[0]
    wrong = package.replace(file=package.file.replace(hash=f"sha256:{'0' * 64}"))
    with pytest.raises(cloche.ClocheError, match="its hash differs"):
        broker.layer(lock.replace(packages=(wrong,)), PackagePolicy(), lambda _: None)
    assert broker.layers.names() == []
    assert [name for name in os.listdir(tmp_path / "packages" / "downloads") if name.startswith("incoming")] == []
    assert broker.provide(wanted, PackagePolicy()).layer is not None


def test_an_index_that_is_down_is_named(jail: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cloche.packages import indexes

    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(indexes, "_pip_said", None)
    monkeypatch.setattr(indexes, "_found", None)
    broker = Broker(str(tmp_path / "packages"), of_this_host.shared().environment)
    with pytest.raises(cloche.ClocheError, match="The package index does not answer as it should") as problem:
        broker.provide(requirements_of(["cowsay"], "python"), PackagePolicy())
    assert "pip configuration" in problem.value.hint
    monkeypatch.setattr(indexes, "_pip_said", None)
    monkeypatch.setattr(indexes, "_found", None)


def test_a_layer_that_was_changed_on_the_host_is_made_again(jail: None, tmp_path: Path) -> None:
    broker = Broker(str(tmp_path / "packages"), of_this_host.shared().environment)
    wanted = requirements_of(["cowsay==6.1"], "python")
    layer = broker.provide(wanted, PackagePolicy()).layer
    assert layer is not None
    file = next(Path(layer.folder).rglob("cowsay/__init__.py"))
    times = os.stat(file)
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b"import", b"IMPORT", 1))
    file.chmod(0o444)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    again = broker.provide(wanted, PackagePolicy()).layer
    assert again is not None
    assert b"IMPORT" not in next(Path(again.folder).rglob("cowsay/__init__.py")).read_bytes()
