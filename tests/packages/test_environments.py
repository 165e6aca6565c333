"""Environments of this host: built once, whole or not at all, and warm where nobody else can be reached."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.packages.crafted_wheels import make_wheel
from tests.waiting import eventually

import cloche
from cloche.errors import Gone, InvalidRun, Refused
from cloche.model.environments import Environment, EnvironmentSpec, Step, checked_name
from cloche.model.packages import Lock, LockedFile, LockedPackage
from cloche.packages import downloads, of_this_host
from cloche.packages import environments as module
from cloche.packages.bill_of_materials import sbom
from cloche.packages.broker import Broker
from cloche.packages.catalogue import Catalogue, update
from cloche.packages.environment_audit import audit
from cloche.packages.environment_build import MAX_LINE, MAX_LINES, BuildLog
from cloche.packages.environment_spec import spec_of
from cloche.packages.environments import Environments
from cloche.packages.policy import PackagePolicy
from cloche.packages.resolutions import lock_data

pytestmark = pytest.mark.embedded

POLICY = PackagePolicy()


@pytest.fixture(scope="module")
def broker(jail: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of this process, with a folder of these tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOCHE_PACKAGES_FOLDER", str(tmp_path_factory.mktemp("packages")))
        yield of_this_host.shared()


@pytest.fixture(scope="module")
def here(broker: Broker) -> Environments:
    return Environments(broker)


@pytest.fixture(scope="module")
def report(here: Environments) -> Environment:
    """An environment with a package of the index, a file, a variable and a setup."""
    spec = spec_of(
        packages=["cowsay==6.1"],
        files={"data/plants.csv": b"fern\n", "bin/hello": (b"#!/bin/sh\necho hello\n", 0o755)},
        setup="echo ready > /sandbox/made\n",
        imports=["cowsay"],
        env={"GREETING": "moin"},
    )
    return here.build("report", spec, POLICY)


def crafted(here: Environments, folder: Path, name: str, files: dict[str, bytes], **spec: Any) -> Environment:
    """An environment with a package that no index has: its wheel is among the downloads already."""
    wheel = make_wheel(folder, files, name.replace("-", "_"))
    digest = sha256(wheel.read_bytes()).hexdigest()
    cache = f"{here._broker.folder}/downloads"
    os.makedirs(cache, mode=0o700, exist_ok=True)
    os.replace(wheel, f"{cache}/{downloads._name(f'sha256:{digest}')}")
    file = LockedFile(wheel.name, "https://index.invalid/" + wheel.name, f"sha256:{digest}")
    lock = Lock("python", (LockedPackage("python", name, "1.0", file),))
    layer = lock.digest
    here._write(Environment(name, 0.0, "0" * 64, layers=(layer,), lock={layer: {"lock": lock_data(lock)}}))
    return here.build(name, EnvironmentSpec(from_lock=True, **spec), POLICY)


# --- what sandboxes get


def test_a_sandbox_has_the_packages_files_and_variables(report: Environment) -> None:
    code = "import cowsay, os; print(cowsay.__version__, os.environ['GREETING'], open('made').read().strip())"
    assert cloche.run(code, environment="report").stdout == "6.1 moin ready\n"
    with cloche.Sandbox(environment="report") as box:
        assert box.run("import cowsay; cowsay.__version__").text == "'6.1'"
        assert box.files.read("data/plants.csv") == b"fern\n"
        assert box.commands.run("bin/hello").stdout == "hello\n"
        assert [each.name for each in box.packages.list() if each.source == "sandbox"] == ["cowsay"]
    assert [(each.name, each.version) for each in report.packages] == [("cowsay", "6.1")]


def test_packages_for_javascript_are_there_and_come_again_from_the_lock(here: Environments) -> None:
    code = "console.log(require('left-pad')('x', 3))"
    built = here.build("script", spec_of(npm=["left-pad@1.3.0"]), POLICY)
    assert cloche.run(code, language="javascript", environment="script").stdout == "  x\n"
    assert [each["purl"] for each in sbom(built)["components"]] == ["pkg:npm/left-pad@1.3.0"]
    layer = here._broker.layers.find(built.layers[0])
    assert layer is not None
    victim = next(Path(layer.folder).rglob("index.js"))
    os.chmod(victim, 0o644)
    victim.write_text("changed\n")
    assert cloche.run(code, language="javascript", environment="script").stdout == "  x\n"


def test_its_modules_are_imported_before_the_code_starts(report: Environment) -> None:
    def is_warm() -> bool:
        return cloche.run("import sys; print('cowsay' in sys.modules)", environment="report").stdout == "True\n"

    eventually(is_warm, 20)


def test_sandboxes_of_one_environment_do_not_see_each_other(report: Environment) -> None:
    with cloche.Sandbox(environment="report") as one, cloche.Sandbox(environment="report") as other:
        one.run("import cowsay; cowsay.mark = 1; open('made', 'w').write('changed')")
        assert other.run("import cowsay; hasattr(cowsay, 'mark'), open('made').read()").text == "(False, 'ready\\n')"


def test_an_install_in_a_sandbox_of_an_environment_can_be_undone(report: Environment) -> None:
    with cloche.Sandbox(environment="report") as box:
        before = box.checkpoint()
        box.packages.install("iniconfig==2.0.0")
        assert box.run("import iniconfig, cowsay; 1").text == "1"
        box.restore(before)
        names = {each.name for each in box.packages.list() if each.source == "sandbox"}
        assert "cowsay" in names
        assert "iniconfig" not in names


def test_an_environment_can_begin_with_another(here: Environments, report: Environment) -> None:
    built = here.build("longer", spec_of(base="report", setup="echo more > /sandbox/more\n"), POLICY)
    assert {each.name for each in built.packages} == {"cowsay"}
    code = "import cowsay, os; print(open('made').read(), open('more').read(), os.environ['GREETING'])"
    assert cloche.run(code, environment="longer").stdout.split() == ["ready", "more", "moin"]
    assert [each["name"] for each in sbom(built)["components"]] == ["cowsay"]


# --- code of packages


MARKS = b"""import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
json.marks = [*getattr(json, "marks", []), [WHERE, status["Seccomp"], status["NoNewPrivs"], os.urandom(4).hex()]]
"""


SHOW_MARKS = "import json; print(json.dumps(getattr(json, 'marks', [])))"


def marks_in(environment: str | None) -> list[list[str]]:
    result = cloche.run(SHOW_MARKS, environment=environment)
    found: list[list[str]] = json.loads(result.stdout)
    return found


def test_modules_are_imported_by_each_sandbox_and_never_by_a_nursery(here: Environments, tmp_path: Path) -> None:
    """Whatever imports the module leaves a mark in its memory, which each fork would inherit."""
    crafted(here, tmp_path, "marker", {"marker/__init__.py": MARKS.replace(b"WHERE", b"'import'")}, imports=("marker",))
    seen = [eventually(lambda: marks_in("marker")) for _ in range(4)]
    for [mark] in seen:  # one each: a nursery's would have come first
        assert mark[:3] == ["import", "2", "1"], "it was imported without the wall"
    tokens = [mark[3] for [mark] in seen]
    assert len(tokens) == len(set(tokens)), "sandboxes have inherited a mark from a common process"
    assert marks_in(None) == []


def test_what_python_runs_at_its_start_never_runs_in_a_nursery(here: Environments, tmp_path: Path) -> None:
    files = {
        "starter/__init__.py": MARKS.replace(b"WHERE", b"'import'"),
        "starter_path.py": MARKS.replace(b"WHERE", b"'pth'"),
        "starter.pth": b"import starter_path\n",
        "sitecustomize.py": MARKS.replace(b"WHERE", b"'sitecustomize'"),
        "usercustomize.py": MARKS.replace(b"WHERE", b"'usercustomize'"),
    }
    crafted(here, tmp_path, "starter", files, imports=("starter",))
    seen = [marks_in("starter") for _ in range(4)]
    for mark in [mark for each in seen for mark in each]:
        assert mark[1:3] == ["2", "1"], f"{mark[0]} ran without the wall"
    tokens = [mark[3] for each in seen for mark in each]
    assert len(tokens) == len(set(tokens)), "sandboxes have inherited a mark from a common process"
    with cloche.Sandbox(environment="starter") as box:  # the code is there, and a Python of the sandbox can run it
        assert box.commands.run("python3 -c 'import starter, json; print(json.marks)'").exit_code == 0
    assert marks_in(None) == []


def test_a_module_that_exits_when_it_is_imported_harms_its_own_sandbox_only(here: Environments, tmp_path: Path) -> None:
    files = {"leaver/__init__.py": b"import os, sys\nif os.path.exists('/sandbox/leave'): sys.exit(3)\n"}
    crafted(here, tmp_path, "leaver", files, imports=("leaver",))
    here.build("leaves", spec_of(base="leaver", files={"leave": b""}), POLICY)
    assert [cloche.run("print(1)", environment="leaves").stdout for _ in range(3)] == ["1\n"] * 3
    assert cloche.run("import leaver", environment="leaves").exit_code == 3


def test_an_archive_of_files_is_unpacked_behind_the_wall(here: Environments) -> None:
    """A link to a folder of the host must not lead anywhere."""
    spec = spec_of(setup="ln -s /proc/1/root/tmp /sandbox/out; echo x > /sandbox/.hidden\n")
    here.build("links", spec, POLICY)
    result = cloche.run("import os; print(os.path.exists('.hidden'), os.listdir('/tmp'))", environment="links")
    assert result.stdout.startswith("True")


# --- builds that fail


def test_a_build_that_fails_leaves_the_earlier_environment(here: Environments, report: Environment) -> None:
    before = here.find("report")
    layers = set(here._broker.layers.names())
    lines: list[str] = []
    with pytest.raises(InvalidRun, match="the setup script: no more"):
        here.build(
            "report", spec_of(setup="echo begun\necho no more >&2\nfalse\necho never\n"), POLICY, report=lines.append
        )
    assert "begun" in lines
    assert "never" not in lines
    assert here.find("report") == before
    assert set(here._broker.layers.names()) == layers
    assert os.listdir(f"{here._broker.layers.folder}/making") == []
    with pytest.raises(InvalidRun, match="import no_such_module"):
        here.build("report", spec_of(imports=["no_such_module"]), POLICY)
    assert here.find("report") == before


KILLED = """
from cloche.packages import of_this_host
from cloche.packages.environment_spec import spec_of
from cloche.packages.environments import Environments
from cloche.packages.policy import PackagePolicy

spec = spec_of(files={"a": b"new"}, setup="echo begun; sleep 1000")
Environments(of_this_host.shared()).build("killed", spec, PackagePolicy(), report=lambda line: print(line, flush=True))
"""


def test_a_killed_build_leaves_nothing(here: Environments) -> None:
    here.build("killed", spec_of(files={"a": b"old"}), POLICY)
    build = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert build.stdout is not None
    with build.stdout:
        assert any(line == "begun\n" for line in build.stdout)
        build.send_signal(signal.SIGKILL)
        build.wait(30)
    assert cloche.run("print(open('a').read())", environment="killed").stdout == "old\n"
    here._broker.layers.sweep()
    assert os.listdir(f"{here._broker.layers.folder}/making") == []


def test_pins_drafts_and_files_of_a_killed_build_are_removed_by_the_next_one(here: Environments) -> None:
    made = here.build("leftover", spec_of(files={"a": b"1"}), POLICY)
    files = made.layers[-1]
    here._broker.layers.pin(files, "environment-of-nobody")
    os.unlink(here._path("leftover"))  # as if the build had been killed before it wrote the file
    draft = f"{here._folder}/leftover.1.part"
    Path(draft).touch()
    here.build("another", spec_of(files={"a": b"2"}), POLICY)
    assert files not in here._broker.layers.names()
    assert not os.path.exists(draft)


def test_two_builds_of_one_name_at_once_leave_one_of_both(here: Environments) -> None:
    threads = [
        threading.Thread(target=here.build, args=("race", spec_of(files={"a": text.encode()}), POLICY))
        for text in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cloche.run("print(open('a').read())", environment="race").stdout in ("one\n", "two\n")
    needed = {layer for each in here.list() for layer in each.layers}
    files = {name for name in here._broker.layers.names() if name.startswith(module._FILES)}
    assert files <= needed


# --- names, layers and limits


def test_a_name_without_a_tag_means_latest(here: Environments, report: Environment) -> None:
    assert here.find("report:latest") == here.find("report") == report
    assert checked_name("report:latest") == "report"
    here.build("report:v2", spec_of(files={"a": b"2"}), POLICY)
    assert [each.name for each in here.list() if each.name.startswith("report")] == ["report", "report:v2"]
    here.remove("report:v2")
    with pytest.raises(Gone, match=r"There is no environment report:v2\."):
        here.find("report:v2")
    assert here.find("report") == report


@pytest.mark.parametrize("name", ["", "Report", "../x", "a/b", "a:b:c", "a:", "-a", "a" * 101, "a\0"])
def test_a_name_that_could_be_a_path_is_refused(here: Environments, name: str) -> None:
    with pytest.raises(InvalidRun, match="cannot be the name"):
        here.find(name)


def test_packages_that_were_lost_or_changed_are_installed_again(here: Environments, report: Environment) -> None:
    layer = here._broker.layers.find(report.layers[0])
    assert layer is not None
    victim = next(Path(layer.folder).rglob("cowsay/__init__.py"))
    os.chmod(victim, 0o644)
    victim.write_text("changed = True\n")
    assert cloche.run("import cowsay; print(cowsay.__version__)", environment="report").stdout == "6.1\n"
    again = here._broker.layers.find(report.layers[0])
    assert again is not None
    assert here._broker.layers.is_pinned(again.name)


def test_files_that_were_lost_are_an_error_with_advice(here: Environments) -> None:
    made = here.build("lost", spec_of(files={"a": b"1"}), POLICY)
    layer = here._broker.layers.find(made.layers[-1])
    assert layer is not None
    archive = Path(layer.folder, "files.tar")
    os.chmod(archive, 0o644)
    archive.write_bytes(b"changed")
    with pytest.raises(Gone, match="The files of the environment lost were changed or are lost") as problem:
        cloche.run("print(1)", environment="lost")
    assert "cloche env create lost" in problem.value.hint


def test_a_removed_environment_goes_on_in_its_sandboxes(here: Environments) -> None:
    made = here.build("short", spec_of(packages=["cowsay==6.1"], files={"a": b"1"}), POLICY)
    with cloche.Sandbox(environment="short") as box:
        box.open()
        here.remove("short")
        assert box.run("import cowsay; print(cowsay.__version__)").stdout == "6.1\n"
    with pytest.raises(Gone, match="There is no environment short"):
        cloche.run("1", environment="short")
    assert made.layers[0] in here._broker.layers.names(), "another environment has the same packages"


def test_a_lock_gives_the_same_versions_again(here: Environments) -> None:
    first = here.build("locked", spec_of(packages=["iniconfig==2.0.0"]), POLICY)
    again = here.build("locked", spec_of(from_lock=True, files={"a": b"1"}), POLICY)
    assert [(each.name, each.version) for each in again.packages] == [("iniconfig", "2.0.0")]
    assert again.layers[0] == first.layers[0]
    with pytest.raises(InvalidRun, match="and not both"):
        here.build("locked", spec_of(from_lock=True, packages=["cowsay"]), POLICY)


def test_the_policy_for_packages_is_obeyed_also_by_the_setup(here: Environments) -> None:
    policy = PackagePolicy(deny=("cowsay",))
    with pytest.raises(Refused, match="cowsay"):
        here.build("denied", spec_of(packages=["cowsay"]), policy)
    with pytest.raises(InvalidRun, match="cowsay"):
        here.build("denied", spec_of(setup="pip install cowsay\n"), policy)
    with pytest.raises(Gone):
        here.find("denied")


def test_an_owner_has_a_limited_number_and_size(
    here: Environments, report: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", len(here.list()))
    with pytest.raises(Refused, match="environments already"):
        here.build("one-too-many", EnvironmentSpec(), POLICY)
    here.build("report", spec_of(packages=["cowsay==6.1"]), POLICY)  # in place of another, it takes no further place
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(Refused, match="would take"):
        here.build("report", EnvironmentSpec(), POLICY)


def test_owners_see_their_own_and_those_of_the_host(here: Environments, broker: Broker, report: Environment) -> None:
    ada, bob = Environments(broker, "ada"), Environments(broker, "bob")
    ada.build("private", spec_of(files={"a": b"1"}), POLICY)
    assert ada.find("private").shared is False
    assert ada.find("report").shared is True
    for stranger in (bob, here):
        with pytest.raises(Gone, match="There is no environment private") as problem:
            stranger.find("private")
        assert "private" not in problem.value.hint
        assert "private" not in [each.name for each in stranger.list()]
    with pytest.raises(Gone, match="of yours"):
        bob.remove("report")
    ada.build("report", spec_of(files={"a": b"of ada"}), POLICY)
    assert not ada.find("report").shared
    assert bob.find("report").shared


@pytest.mark.parametrize(
    "spec",
    [
        {"imports": ["os; print(1)"]},
        {"imports": ["os"] * 1 + [f"m{number}" for number in range(60)]},
        {"steps": [Step("apt", "x")]},
        {"files": {"": b""}},
        {"setup": "\0"},
        {"env": {"A=B": "1"}},
    ],
)
def test_a_specification_that_nobody_could_build_is_refused_at_once(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidRun):
        spec_of(**spec)


def test_a_log_is_bounded_and_has_whole_lines() -> None:
    lines: list[str] = []
    log = BuildLog(lines.append)
    log.output("one\ntw")
    log.output("o\n10 %\r100 %\n" + "x" * (MAX_LINE * 2))
    log.finish()
    assert lines == ["one", "two", "100 %", "x" * MAX_LINE]
    for number in range(MAX_LINES * 2):
        log.line(str(number))
    assert len(lines) == MAX_LINES
    assert "the rest is left out" in lines[-1]


# --- bills and audits


def test_a_bill_of_materials_names_every_package(report: Environment) -> None:
    bill = sbom(report)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    [component] = bill["components"]
    assert component["purl"] == "pkg:pypi/cowsay@6.1"
    assert [(each["alg"], len(each["content"])) for each in component["hashes"]] == [("SHA-256", 64)]
    assert component["licenses"][0]["license"]["name"]
    assert sbom(report) == bill


def test_an_audit_asks_the_local_catalogue_and_says_how_old_it_is(report: Environment, tmp_path: Path) -> None:
    clean = audit(report, Catalogue(tmp_path), 1e9)
    assert (clean.packages, clean.findings, clean.catalogue_age_days) == (1, (), None)
    entry = {
        "id": "MAL-2026-1",
        "summary": "it steals",
        "affected": [{"package": {"ecosystem": "PyPI", "name": "cowsay"}, "versions": ["6.1"]}],
    }
    (tmp_path / "entry.json").write_text(json.dumps(entry))
    update(tmp_path / "entry.json", tmp_path / "made", 1e9)
    found = audit(report, Catalogue(tmp_path / "made"), 1e9 + 3 * 86_400)
    assert found.catalogue_age_days == pytest.approx(3)
    assert [(each.name, each.id, each.malicious) for each in found.findings] == [("cowsay", "MAL-2026-1", True)]


# --- nurseries

NURSERIES = """
import sys, time
import cloche
from cloche.walls.jail import nursery_client

def living():
    return [kind for kind, each in nursery_client.shared._by_kind.items()
            if kind.startswith("environment ") and each.is_alive()]

def until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, living()
        time.sleep(0.02)

names = sys.argv[1:]
for name in names:
    assert cloche.run("print(1)", environment=name).stdout == "1\\n"
    assert len(living()) == 1, living()
until(lambda: not [each for each in nursery_client.shared._retired if each.is_alive()])
until(lambda: not living())
assert cloche.run("print(2)", environment=names[0]).stdout == "2\\n"
"""


def test_few_environments_are_kept_warm_and_only_while_they_are_used(here: Environments) -> None:
    for name in ("first", "second"):
        here.build(name, spec_of(files={"a": name.encode()}), POLICY)
    settings = {"CLOCHE_ENVIRONMENTS": "1", "CLOCHE_ENVIRONMENTS_IDLE": "1"}
    command = [sys.executable, "-c", NURSERIES, "first", "second"]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
