import re
import threading
from pathlib import Path

import pytest

from cloche.environment import MANIFEST, build, fingerprint, is_built, is_slim
from cloche.environment.absence import explain
from cloche.environment.progress import Silent, only_builder, progress_of


@pytest.fixture
def quick(monkeypatch):
    """Replaces pip, which takes a minute, by a stand-in, and counts the builds."""
    built: list[Path] = []

    def build_into(env, order, progress):
        env.mkdir()
        built.append(env)
        progress.step("working")
        (env / MANIFEST).write_text('{"variant": "slim"}' if order.slim else '{"node_packages": {"esbuild": "1"}}')

    monkeypatch.setattr(build, "_build_into", build_into)
    return built


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {".lock"}


def test_what_is_built_is_not_built_again(tmp_path, quick):
    build.build(tmp_path / "env")
    build.build(tmp_path / "env")
    assert len(quick) == 1
    assert names(tmp_path) == {"env"}


def test_builders_that_meet_build_once(tmp_path, quick):
    threads = [threading.Thread(target=build.build, args=(tmp_path / "env",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(quick) == 1
    assert is_built(tmp_path / "env")


def test_a_build_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(env, order, progress):
        env.mkdir()
        (env / MANIFEST).write_text("{}")
        raise build.BuildFailed("no space")

    monkeypatch.setattr(build, "_build_into", fail)
    with pytest.raises(build.BuildFailed, match="no space"):
        build.build(tmp_path / "env")
    assert names(tmp_path) == set()


def test_a_python_that_does_not_start_is_named(tmp_path):
    with pytest.raises(build.BuildFailed, match="no-such-python"):
        build.build(tmp_path / "env", python="/no-such-python")


def test_the_remains_of_an_interrupted_build_do_not_disturb_the_next(tmp_path, quick):
    (tmp_path / ".env.partial" / "lib").mkdir(parents=True)
    (tmp_path / ".env.old" / "lib").mkdir(parents=True)
    build.build(tmp_path / "env")
    assert names(tmp_path) == {"env"}
    assert names(tmp_path / "env") == {MANIFEST}


def test_older_environments_of_the_same_python_go_and_others_stay(tmp_path, quick):
    for name in ("python-3.11-aaaaaaaaaaaa", "python-3.12-aaaaaaaaaaaa", "python-3.11-mine"):
        (tmp_path / name).mkdir()
    build.build(tmp_path / "python-3.11-bbbbbbbbbbbb")
    assert names(tmp_path) == {"python-3.11-bbbbbbbbbbbb", "python-3.12-aaaaaaaaaaaa", "python-3.11-mine"}


def test_older_environments_of_other_interpreters_stay(tmp_path, quick):
    for name in ("python-3.11-aaaaaaaaaaaa-usr", "python-3.11-aaaaaaaaaaaa-opt-python", "python-3.11-aaaaaaaaaaaa"):
        (tmp_path / name).mkdir()
    build.build(tmp_path / "python-3.11-bbbbbbbbbbbb-usr")
    assert names(tmp_path) == {
        "python-3.11-bbbbbbbbbbbb-usr",
        "python-3.11-aaaaaaaaaaaa-opt-python",
        "python-3.11-aaaaaaaaaaaa",
    }


def test_slim_and_full_replace_each_other(tmp_path, quick):
    for slim in (True, True, False, False, True):
        build.build(tmp_path / "env", slim=slim)
        assert is_slim(tmp_path / "env") == slim
        assert build.is_complete(tmp_path / "env", slim)
        assert not build.is_complete(tmp_path / "env", not slim)
    assert len(quick) == 3
    assert names(tmp_path) == {"env"}


def test_node_that_was_installed_later_completes_the_environment(tmp_path, quick, monkeypatch):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / MANIFEST).write_text('{"node_packages": {}}')
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.is_complete(tmp_path / "env")
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not build.is_complete(tmp_path / "env")


def test_a_build_that_is_under_way_is_known_to_others(tmp_path, quick):
    assert progress_of(tmp_path / "env") is None
    with only_builder(tmp_path / "env", Silent()) as progress:
        progress.step("downloading")
        progress.count(3, 10, 1000)
        assert progress_of(tmp_path / "env") == "downloading, 3 of 10"
        assert explain(str(tmp_path / "env"))[0].endswith("is being built (downloading, 3 of 10).")
    assert progress_of(tmp_path / "env") is None
    assert "cloche setup" in explain(str(tmp_path / "env"))[1]


def test_what_lies_beside_a_place_of_the_operators_choice_stays(tmp_path, quick):
    (tmp_path / "python-3.11-aaaaaaaaaaaa").mkdir()
    build.build(tmp_path / "env")
    assert "python-3.11-aaaaaaaaaaaa" in names(tmp_path)


@pytest.mark.parametrize(
    "first",
    ["#!/home/me/venv/bin/python3.11\n", "#!/bin/sh\n'''exec' \"/home/a b/bin/python3.11\" \"$0\" \"$@\"\n' '''\n"],
)
def test_scripts_start_the_interpreter_of_the_sandbox(tmp_path, first):
    (tmp_path / "tool").write_text(f"{first}import sys\nprint('#!/usr/bin/python')\n")
    build._point_scripts_inside(tmp_path)
    assert (tmp_path / "tool").read_text() == ("#!/opt/env/bin/python3\nimport sys\nprint('#!/usr/bin/python')\n")


def test_scripts_of_other_languages_are_left_alone(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho\n")
    build._point_scripts_inside(tmp_path)
    assert (tmp_path / "tool").read_text() == "#!/bin/sh\necho\n"


def test_a_private_umask_does_not_hide_the_environment(tmp_path):
    folder = tmp_path / "env" / "lib"
    folder.mkdir(parents=True)
    for name, mode in (("data", 0o600), ("tool", 0o700)):
        (folder / name).write_text("")
        (folder / name).chmod(mode)
    folder.chmod(0o700)
    (folder / "python").symlink_to("/nowhere/python")
    build._let_everyone_read(tmp_path / "env")
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, folder / "data", folder / "tool")] == [
        "0o755",
        "0o644",
        "0o755",
    ]


def test_the_fingerprint_on_record_is_that_of_the_lock():
    assert build.fingerprint() == fingerprint.FINGERPRINT, "run scripts/lock"


@pytest.mark.parametrize("lock", ["requirements-dev.lock", "src/cloche/environment/packages.lock"])
def test_locks_name_versions_and_hashes_and_no_addresses(lock):
    text = (Path(__file__).parents[2] / lock).read_text()
    assert not re.search(r"://|index-url|find-links", text)
    for requirement in re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", text).strip()):
        assert re.match(r"[a-z0-9-]+==\S+", requirement)
        assert "--hash=sha256:" in requirement


def test_every_wanted_package_is_locked():
    folder = Path(build.__file__).parent
    wanted = set(re.findall(r"(?m)^[a-z0-9-]+", (folder / "packages.in").read_text()))
    locked = set(re.findall(r"(?m)^([a-z0-9-]+)==", (folder / "packages.lock").read_text()))
    assert wanted <= locked
