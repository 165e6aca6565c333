"""Node packages of the real registry, as npm's configuration names it: in programs, sessions, projects and commands."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import PACKAGES_FOLDER

import cloche
from cloche import environment
from cloche.errors import InvalidRun, Unavailable
from cloche.model.packages import requirements_of
from cloche.packages import node_packages
from cloche.packages.broker import Broker
from cloche.packages.policy import PackagePolicy

pytestmark = [
    pytest.mark.skipif(not node_packages.is_available(), reason="this host has no npm"),
    pytest.mark.usefixtures("jail"),
]

VERSION = "console.log(require('lodash').VERSION)"


@pytest.fixture
def broker(jail: None) -> Broker:
    return Broker(PACKAGES_FOLDER, os.environ.get("CLOCHE_ENVIRONMENT") or environment.location())


def shell(box: cloche.Sandbox, command: str) -> str:
    """Run a command that must succeed; returns its output."""
    ended = box.commands.run(command)
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    return ended.stdout


# --- programs and sessions


def test_a_program_requires_a_package() -> None:
    result = cloche.run(VERSION, language="javascript", packages=["lodash@4.17.20"])
    assert result.stdout == "4.17.20\n", result.error


def test_a_program_imports_a_package_that_is_only_a_module_and_one_with_a_scope() -> None:
    code = "import chalk from 'chalk'; import is from '@sindresorhus/is'; console.log(typeof chalk.red, is.string('x'))"
    result = cloche.run(code, language="javascript", packages=["chalk@5", "@sindresorhus/is@7"])
    assert result.stdout == "function true\n", result.error


def test_a_package_finds_its_dependencies_and_other_versions_of_them_in_its_layer() -> None:
    code = "const { say } = require('cowsay'); console.log(require.resolve('cowsay'), say({text: 'moo'}).length > 9)"
    result = cloche.run(code, language="javascript", packages=["cowsay@1.6"])
    assert result.stdout.startswith("/opt/layers/0/node_modules/cowsay/")
    assert result.stdout.endswith(" true\n")


def test_types_of_a_package_are_checked() -> None:
    code = "import { nanoid } from 'nanoid'; const id: string = nanoid(); console.log(id.length)"
    right = cloche.run(code, language="typescript", check="block", packages=["nanoid@5"])
    assert right.stdout == "21\n", right.error
    wrong = cloche.run(
        code.replace(": string", ": number"), language="typescript", check="block", packages=["nanoid@5"]
    )
    assert wrong.diagnostics[0].code == "TS2322"
    assert not wrong.stdout


def test_a_session_uses_a_package_right_after_its_install_until_an_earlier_state_is_restored(
    box: cloche.Sandbox,
) -> None:
    missing = box.run("require('is-odd')", language="javascript")
    assert missing.error is not None
    before = box.checkpoint()
    done = box.packages.install("is-odd@3.0.1", "nanoid@5", language="javascript")
    assert ("is-odd", "3.0.1") in [(each.name, each.version) for each in done.packages]
    assert box.run("require('is-odd')(7)", language="javascript").text == "true"
    assert box.run("import { nanoid } from 'nanoid'; nanoid().length", language="javascript").text == "21"
    assert {"is-odd", "is-number", "nanoid"} <= {each.name for each in box.packages.list()}
    box.restore(before)
    assert not {"is-odd", "nanoid"} & {each.name for each in box.packages.list()}
    assert box.run("require('is-odd')", language="javascript").error is not None


def test_another_version_takes_the_place_of_the_first_and_can_be_removed(box: cloche.Sandbox) -> None:
    box.packages.install("semver@6.3.1", language="javascript")
    assert shell(box, "node_modules/.bin/semver -h | head -1").startswith("SemVer 6.3.1")
    again = box.packages.install("semver@6", language="javascript")
    assert [(each.name, each.version) for each in again.satisfied] == [("semver", "6.3.1")]
    box.packages.install("semver@7.6.3", language="javascript")
    assert shell(box, "node_modules/.bin/semver -h | head -1").startswith("SemVer 7.6.3")
    assert box.packages.uninstall("semver", language="javascript") == ["semver"]
    assert shell(box, "ls -A node_modules node_modules/.bin") == "node_modules:\n.bin\n\nnode_modules/.bin:\n"


# --- npm and npx


def test_npm_install_saves_what_it_has_installed_and_npm_lists_it(box: cloche.Sandbox) -> None:
    shell(box, "mkdir p && cd p && npm init -y && npm install lodash@4.17.20 && npm i -D semver@~7.6.0")
    manifest = json.loads(box.files.read("p/package.json"))
    assert manifest["dependencies"] == {"lodash": "^4.17.20"}
    assert manifest["devDependencies"] == {"semver": "~7.6.0"}
    listed = json.loads(shell(box, "cd p && npm ls --json"))
    assert listed["dependencies"]["lodash"]["version"] == "4.17.20"
    assert not listed.get("problems")
    assert shell(box, f'cd p && node -e "{VERSION}"') == "4.17.20\n"
    shell(box, "cd p && npm uninstall lodash")
    assert "dependencies" not in json.loads(box.files.read("p/package.json"))
    assert shell(box, "ls p/node_modules") == "semver\n"
    shell(box, "cd p && rm -r node_modules && npm install")
    assert shell(box, "ls p/node_modules") == "semver\n"


def test_npm_install_writes_a_lock_that_both_kinds_of_npm_understand(box: cloche.Sandbox) -> None:
    shell(box, "mkdir p && cd p && npm init -y && npm install is-odd@3.0.1 && npm i -D cowsay@1.6.0")
    packages = json.loads(box.files.read("p/package-lock.json"))["packages"]
    assert packages[""]["dependencies"] == {"is-odd": "^3.0.1"}
    assert packages["node_modules/is-odd"]["integrity"].startswith("sha512-")
    is_dev = {name: packages[f"node_modules/{name}"].get("dev", False) for name in ("is-number", "yargs", "cowsay")}
    assert is_dev == {"is-number": False, "yargs": True, "cowsay": True}
    shell(box, "cd p && npm ci")
    assert "< moo >" in shell(box, "cd p && npx cowsay moo")
    shell(box, "cd p && npm ci --omit=dev && npm ls --omit=dev")
    assert shell(box, "ls p/node_modules") == "is-number\nis-odd\n"
    shell(box, "cd p && npm ci && npm uninstall cowsay && npm ls && npm ci && npm ls")
    assert shell(box, "ls p/node_modules") == "is-number\nis-odd\n"


def test_npm_install_for_all_and_npx_run_the_programs_of_packages(box: cloche.Sandbox) -> None:
    shell(box, "cd /tmp && npm install -g semver@7.6.3")
    assert shell(box, "semver 1.2.3 -i minor") == "1.3.0\n"
    assert "semver@7.6.3" in shell(box, "npm ls -g")
    assert "< moo >" in shell(box, "cd /tmp && npx --yes cowsay@1.6.0 moo")
    assert shell(box, "cd /tmp && npx semver -h | head -1").startswith("SemVer 7.6.3")
    assert not box.files.exists("node_modules")


def test_what_cannot_be_installed_is_said_and_changes_nothing(box: cloche.Sandbox) -> None:
    ended = box.commands.run("npm install lodash@999")
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "No matching version found for lodash@999" in ended.stderr
    assert shell(box, "ls -A | grep -e node_modules -e package || true") == ""
    other = box.commands.run("npm install ./folder")  # for the real npm
    assert other.exit_code != 0
    assert "Cloche" not in other.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A project whose lock the host's npm has made."""
    path = tmp_path_factory.mktemp("project")
    (path / "package.json").write_text('{"name": "p", "version": "1.0.0", "dependencies": {"is-odd": "3.0.1"}}')
    options = ["--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--lockfile-version=3"]
    subprocess.run(["npm", "install", *options], cwd=path, check=True, capture_output=True)
    return {name: (path / name).read_text() for name in ("package.json", "package-lock.json")}


def test_npm_ci_installs_the_versions_of_the_lock(box: cloche.Sandbox, project: dict[str, str]) -> None:
    for name, text in project.items():
        box.files.write(f"p/{name}", text)
    box.files.write("p/node_modules/leftover/index.js", "")
    assert "added 2 packages" in shell(box, "cd p && npm ci")
    assert shell(box, "ls p/node_modules") == "is-number\nis-odd\n"
    box.files.write("p/package.json", project["package.json"].replace("3.0.1", "3.0.0"))
    ended = box.commands.run("cd p && npm ci")
    assert ended.exit_code == 1
    assert "are in sync" in ended.stderr


def test_a_file_with_another_hash_is_refused_inside(box: cloche.Sandbox, project: dict[str, str]) -> None:
    lock = json.loads(project["package-lock.json"])
    lock["packages"]["node_modules/is-odd"]["integrity"] = f"sha512-{'A' * 86}=="
    box.files.write("p/package.json", project["package.json"])
    box.files.write("p/package-lock.json", json.dumps(lock))
    ended = box.commands.run("cd p && npm ci")
    assert ended.exit_code == 1
    assert "its hash differs" in ended.stderr
    assert not box.files.exists("p/node_modules")


def test_after_a_file_with_another_hash_nothing_is_half_installed(tmp_path: Path, project: dict[str, str]) -> None:
    broker = Broker(str(tmp_path), str(tmp_path))
    packages = json.loads(project["package-lock.json"])["packages"].items()
    right = [{**each, "place": place, "name": place.rpartition("/")[2]} for place, each in packages if place]
    wrong = [{**each, "integrity": f"sha512-{'A' * 86}=="} if "odd" in each["name"] else each for each in right]
    with pytest.raises(Unavailable, match="its hash differs"):
        broker.provide_node_lock(wrong, PackagePolicy())
    assert broker.layers.names() == os.listdir(tmp_path / "store" / "making") == []
    found = broker.provide_node_lock(right, PackagePolicy())
    assert [each.name for each in found.packages] == ["is-number", "is-odd"]


def test_a_lock_cannot_give_a_package_the_name_of_another(box: cloche.Sandbox, project: dict[str, str]) -> None:
    """A policy decides by names, so a lock that lies about one must not get around it."""
    lock = json.loads(project["package-lock.json"])
    packages = lock["packages"]
    packages["node_modules/is-odd"]["integrity"] = packages["node_modules/is-number"]["integrity"]
    box.files.write("p/package.json", project["package.json"])
    box.files.write("p/package-lock.json", json.dumps(lock))
    assert box.commands.run("cd p && npm ci").exit_code == 1
    assert not box.files.exists("p/node_modules")


# --- the broker


def test_versions_of_the_policy_and_the_time_of_release_are_heeded(broker: Broker) -> None:
    bounded = PackagePolicy(versions={"npm:semver": "<7.6"})
    wanted = requirements_of(["semver@7"], "javascript")
    bounded_versions = {each.name: each.version for each in broker.provide(wanted, bounded).packages}
    newest_versions = {each.name: each.version for each in broker.provide(wanted, PackagePolicy()).packages}
    assert bounded_versions["semver"].startswith("7.5.")
    assert not newest_versions["semver"].startswith("7.5.")
    uploaded = broker.provide(requirements_of(["is-odd"], "javascript"), PackagePolicy()).packages[0].file.uploaded
    assert uploaded is not None


def test_what_the_environment_has_is_not_installed_again(tmp_path: Path) -> None:
    for name, version in (("lodash", "4.17.20"), ("typescript", "5.0.0"), ("@types/node", "20.0.0")):
        (tmp_path / "lib/node_modules" / name).mkdir(parents=True)
        (tmp_path / "lib/node_modules" / name / "package.json").write_text(json.dumps({"version": version}))
    broker = Broker(PACKAGES_FOLDER, str(tmp_path))
    assert broker.present()["javascript"] == {"lodash": "4.17.20"}  # programs cannot require the compilers
    found = broker.provide(requirements_of(["lodash@4"], "javascript"), PackagePolicy())
    assert (found.layer, found.satisfied) == (None, (("lodash", "4.17.20"),))
    both = broker.provide(requirements_of(["lodash@^4.17", "is-number@7.0.0"], "javascript"), PackagePolicy())
    assert [each.name for each in both.packages] == ["is-number"]
    other = broker.provide(requirements_of(["lodash@4.17.21"], "javascript"), PackagePolicy())
    assert [(each.name, each.version) for each in other.packages] == [("lodash", "4.17.21")]


def test_a_set_is_resolved_and_downloaded_once(tmp_path: Path) -> None:
    broker = Broker(str(tmp_path / "packages"), str(tmp_path))
    steps: list[str] = []
    wanted = requirements_of(["is-number@7.0.0"], "javascript")
    first = broker.provide(wanted, PackagePolicy(), report=steps.append)
    assert len(steps) == 3
    assert broker.provide(wanted, PackagePolicy(), report=steps.append) == first
    assert len(steps) == 3


def test_install_scripts_run_only_where_the_policy_names_the_package(broker: Broker) -> None:
    """The script of esbuild puts the program for this machine in the place of a small one in JavaScript."""
    wanted = requirements_of(["esbuild@0.25.0"], "javascript")
    without = broker.provide(wanted, PackagePolicy())
    assert any("esbuild" in each for each in without.warnings)
    allowed = broker.provide(wanted, PackagePolicy(scripts=["esbuild"]))
    assert without.layer is not None
    assert allowed.layer is not None
    sizes = [
        os.stat(f"{each.folder}/node_modules/esbuild/bin/esbuild").st_size for each in (without.layer, allowed.layer)
    ]
    assert sizes[0] < 100_000 < sizes[1]


@pytest.mark.parametrize("name", ["no-such-package-of-cloche-at-all", "@no-such-scope-of-cloche/x"])
def test_a_name_that_the_registry_does_not_know_is_said(broker: Broker, name: str) -> None:
    with pytest.raises(InvalidRun, match=name):
        broker.provide(requirements_of([name], "javascript"), PackagePolicy())


def test_a_registry_that_is_down_is_said(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm in the sandbox is led to a port on which nobody listens."""
    monkeypatch.setattr(node_packages, "_VARIABLES", {"npm_config_registry": "http://127.0.0.1:9/"})
    with pytest.raises(Unavailable, match="does not answer"):
        broker.provide(requirements_of(["is-odd@2"], "javascript"), PackagePolicy())
