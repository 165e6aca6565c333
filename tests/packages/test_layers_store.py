"""Layers: whole or absent, read-only, verified each time they are found, and never removed while they are used."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.packages.made_layers import NAME, OTHER, fill, left, make, make_spoilt

from cloche.errors import Gone, Misconfigured, Refused, Unavailable
from cloche.packages import layers, trees
from cloche.packages.layers import Layer, LayerStore


@pytest.fixture
def store(tmp_path: Path) -> LayerStore:
    return LayerStore(str(tmp_path / "store"))


def test_a_kept_layer_is_found_by_every_store(store: LayerStore) -> None:
    kept = make(store)
    found = LayerStore(store.folder).find(NAME)
    assert found == kept
    assert (kept.name, kept.ecosystem, kept.details) == (NAME, "python", {"packages": [{"name": "demo"}]})
    assert Path(kept.folder, "lib/demo/__init__.py").read_bytes() == b"x" * 100
    assert 200_000 < kept.size < 300_000
    assert store.names() == [NAME]
    assert store.layers() == [kept]
    assert left(store) == []


def test_a_layer_is_read_only_and_private(store: LayerStore) -> None:
    folder = Path(make(store).folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert modes == {"tree": 0o555, "lib": 0o555, "demo": 0o555, "__init__.py": 0o444, "big.so": 0o444, "tool": 0o555}
    assert {path.stat().st_uid for path in folder.rglob("*")} == {os.geteuid()}
    private = [store.folder, *(os.path.join(store.folder, each) for each in ("layers", "making", f"layers/{NAME}"))]
    assert {stat.S_IMODE(os.stat(each).st_mode) for each in private} == {0o700}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take over files of another user")
def test_root_takes_over_what_a_sandbox_of_another_user_wrote(store: LayerStore) -> None:
    with store.begin() as staging:
        tree = fill(staging.folder)
        for path in [tree, *tree.rglob("*")]:
            os.chown(path, 1000, 1000)
        layer = store.keep(staging, NAME, "python", {})
    folder = Path(layer.folder)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in [folder, *folder.rglob("*")]} == {(0, 0)}
    assert stat.S_IMODE((folder / "tool").stat().st_mode) == 0o555  # not set-user-ID for root


def test_other_files_in_the_staging_folder_do_not_get_into_the_layer(store: LayerStore) -> None:
    with store.begin() as staging:
        fill(staging.folder)
        (Path(staging.folder) / "wheels/deep").mkdir(parents=True)
        (Path(staging.folder) / "wheels/a.whl").write_bytes(b"x")
        (Path(staging.folder) / "log").write_bytes(b"x")
        layer = store.keep(staging, NAME, "python", {})
    assert sorted(os.listdir(os.path.dirname(layer.folder))) == ["manifest", "tree", "uses"]


def test_leaving_without_keep_removes_everything(store: LayerStore) -> None:
    with store.begin() as staging:
        tree = fill(staging.folder)
        (tree / "link").symlink_to("/etc")
        os.mkfifo(tree / "pipe")
        (tree / "lib").chmod(0o000)
    assert left(store) == []
    assert os.path.isdir("/etc")


def changed(layer: Layer) -> Path:
    return Path(layer.folder) / "lib/demo/__init__.py"


def rewrite(layer: Layer) -> None:
    path, status = changed(layer), changed(layer).stat()
    path.chmod(0o644)
    path.write_bytes(b"y" * 100)
    path.chmod(0o444)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(layer: Layer) -> None:
    path, status = changed(layer), changed(layer).stat()
    path.parent.chmod(0o755)
    path.unlink()
    path.write_bytes(b"y" * 100)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def add(layer: Layer) -> None:
    folder = changed(layer).parent
    folder.chmod(0o755)
    (folder / "more.py").write_text("")
    folder.chmod(0o555)


def take_away(layer: Layer) -> None:
    changed(layer).parent.chmod(0o755)
    changed(layer).unlink()
    changed(layer).parent.chmod(0o555)


def loosen_file(layer: Layer) -> None:
    changed(layer).chmod(0o664)


def loosen_folder(layer: Layer) -> None:
    changed(layer).parent.chmod(0o775)


def link_away(layer: Layer) -> None:
    os.link(changed(layer), Path(layer.folder).parent / "second")


def swap_for_link(layer: Layer) -> None:
    folder = changed(layer).parent
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    folder.rename(Path(layer.folder).parent / "moved")
    folder.symlink_to("../../moved")
    folder.parent.chmod(0o555)


def swap_tree(layer: Layer) -> None:
    tree = Path(layer.folder)
    tree.rename(tree.with_name("moved"))
    tree.symlink_to("moved")


def damage_manifest(layer: Layer) -> None:
    manifest = Path(layer.folder).parent / "manifest"
    data = bytearray(manifest.read_bytes())
    data[100] ^= 1
    manifest.write_bytes(data)


def empty_manifest(layer: Layer) -> None:
    (Path(layer.folder).parent / "manifest").write_bytes(b"")


def remove_manifest(layer: Layer) -> None:
    (Path(layer.folder).parent / "manifest").unlink()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (rewrite, "the file lib/demo/__init__.py has other contents"),
        (replace, "the file lib/demo/__init__.py has other contents"),
        (add, "the file lib/demo/more.py is new"),
        (take_away, "the file lib/demo/__init__.py is missing"),
        (loosen_file, "the file lib/demo/__init__.py has changed"),
        (loosen_folder, "the folder lib/demo has another owner or other rights"),
        (link_away, "the file lib/demo/__init__.py has changed"),
        (swap_for_link, "its files cannot be read"),
        (swap_tree, "its files cannot be read"),
        (damage_manifest, "its manifest is damaged"),
        (empty_manifest, "its manifest is damaged"),
        (remove_manifest, "its files cannot be read"),
    ],
)
def test_a_changed_layer_is_removed_and_made_again(
    store: LayerStore, caplog: pytest.LogCaptureFixture, spoil: Callable[[Layer], None], sentence: str
) -> None:
    spoil(make(store))
    with caplog.at_level(logging.WARNING, "cloche.packages"):
        assert store.find(NAME) is None
    assert sentence in caplog.text
    assert store.names() == left(store) == []
    assert store.find(make(store).name) is not None


def test_a_layer_that_a_backup_restored_is_read_again_and_kept(store: LayerStore) -> None:
    layer = make(store)
    before = changed(layer).stat()
    subprocess.run(["cp", "-a", layer.folder, f"{layer.folder}.restored"], check=True)
    os.rename(layer.folder, f"{layer.folder}.old")
    os.rename(f"{layer.folder}.restored", layer.folder)
    assert changed(layer).stat().st_ino != before.st_ino
    manifest = Path(layer.folder).parent / "manifest"
    written = manifest.stat().st_ino
    assert store.find(NAME) == layer
    renewed = manifest.stat().st_ino
    assert renewed != written
    assert store.find(NAME) == layer
    assert manifest.stat().st_ino == renewed  # the second time, nothing was read again


def test_after_a_restart_of_the_machine_every_byte_is_read(
    store: LayerStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    layer = make(store)
    with monkeypatch.context() as patch:
        patch.setattr(layers, "_BOOT", "another start")
        assert store.find(NAME) == layer
    read: list[int] = []
    hashed = trees._hash

    def counted(file: int) -> bytes:
        read.append(file)
        return hashed(file)

    monkeypatch.setattr(trees, "_hash", counted)
    assert store.find(NAME) == layer  # back at the first start, which is again another one
    assert len(read) == 3
    assert store.find(NAME) == layer
    assert len(read) == 3


def test_names_that_are_no_digest_are_not_looked_up(store: LayerStore) -> None:
    for name in ("../x", "", "ab", "AB" * 32, f"{NAME}/tree"):
        with pytest.raises(ValueError, match="no name of a layer"):
            store.find(name)


def test_two_makers_of_one_layer_both_succeed(store: LayerStore) -> None:
    def one(_: int) -> Layer:
        return make(LayerStore(store.folder))

    with ThreadPoolExecutor(6) as threads:
        kept = list(threads.map(one, range(12)))
    assert set(map(str, kept)) == {str(store.find(NAME))}
    assert left(store) == []


def test_makers_removers_and_sweepers_do_not_disturb_each_other(store: LayerStore) -> None:
    def work(number: int) -> None:
        mine = LayerStore(store.folder)
        for _ in range(10):
            if number % 3 == 0:
                assert make(mine).name == NAME
            elif number % 3 == 1:
                mine.sweep()
                mine.remove(NAME)
            elif (layer := mine.find(NAME)) is not None:
                try:
                    uses = layer.use()
                except Gone:
                    continue
                assert Path(layer.folder, "tool").exists()
                os.close(uses)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert left(store) == []
    assert store.names() in ([], [NAME])


def test_a_used_layer_is_not_removed(store: LayerStore) -> None:
    uses = make(store).use()
    assert not store.remove(NAME)
    os.close(uses)
    assert store.remove(NAME)
    assert store.find(NAME) is None
    assert not store.remove(NAME)


def test_a_use_counts_across_processes_and_ends_with_them(store: LayerStore) -> None:
    layer = make(store)
    program = "import sys; from cloche.packages.layers import *; layer = LayerStore(sys.argv[1]).find(sys.argv[2])"
    command = [sys.executable, "-c", f"{program}; layer.use(); print(1, flush=True); input()", store.folder, NAME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"1\n"
        assert not store.remove(NAME)
        user.kill()
    assert store.remove(layer.name)


def test_using_a_removed_layer_says_that_it_is_gone(store: LayerStore) -> None:
    layer = make(store)
    store.remove(NAME)
    with pytest.raises(Gone, match="removed to make room"):
        layer.use()


def test_room_is_made_by_removing_what_was_not_used_for_longest(tmp_path: Path) -> None:
    store = LayerStore(str(tmp_path / "store"), most_bytes=1_000_000)
    names = [f"{number:016x}" for number in range(4)]
    for name in names:
        make(store, name)
    os.close(_found(store, names[0]).use())
    held = _found(store, names[1]).use()
    store.make_room(400_000)
    assert store.names() == [names[0], names[1]]
    with pytest.raises(Refused, match=r"no room for 900 kB of packages: 2\d\d kB of 1 MB are in use"):
        store.make_room(900_000)
    assert store.names() == [names[1]]
    os.close(held)


def _found(store: LayerStore, name: str) -> Layer:
    layer = store.find(name)
    assert layer is not None
    return layer


def test_keep_makes_room_for_itself(tmp_path: Path) -> None:
    store = LayerStore(str(tmp_path / "store"), most_bytes=300_000)
    make(store, NAME)
    make(store, OTHER)
    assert store.names() == [OTHER]


KILLED = """
import os, sys
from pathlib import Path
from cloche.packages import layers, trees
step = int(sys.argv[2])
store = layers.LayerStore(sys.argv[1])
def trace(frame, event, argument):
    # Die at the chosen line of our own code.
    global step
    if frame.f_code.co_filename in (layers.__file__, trees.__file__):
        step -= event == "line"
        if step < 0:
            os.kill(os.getpid(), 9)
        return trace
with store.begin() as staging:
    tree = Path(staging.folder) / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "lib/a.py").write_text("a")
    sys.settrace(trace)
    store.keep(staging, sys.argv[3], "python", {})
    sys.settrace(None)
"""


@pytest.mark.parametrize("step", range(0, 250, 15))
def test_a_killed_maker_leaves_nothing_that_a_sweep_does_not_remove(store: LayerStore, step: int) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, store.folder, str(step), NAME], check=False)
    assert ended.returncode in (-9, 0)
    if store.names():
        assert _found(store, NAME).ecosystem == "python"
    else:
        assert left(store) != []  # or this test would show nothing
    store.sweep()
    assert left(store) == []
    assert make(store).name == NAME


def test_a_sweep_leaves_living_makers_alone(store: LayerStore) -> None:
    with store.begin() as staging:
        fill(staging.folder)
        LayerStore(store.folder).sweep()
        assert store.keep(staging, NAME, "python", {}).name == NAME


def test_a_sweep_finishes_a_removal_that_was_cut_short(store: LayerStore) -> None:
    os.rename(os.path.dirname(make(store).folder), os.path.join(store.folder, "making", "removed-0"))
    store.sweep()
    assert left(store) == []


def test_a_process_that_keeps_adding_files_cannot_hold_up_a_removal(
    store: LayerStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_MOST_SECONDS", 0.2)
    program = "import itertools, os, sys; "
    program += "[os.mkdir(f'{sys.argv[1]}/{n}') or n or print(flush=True) for n in itertools.count()]"
    with store.begin() as staging:
        adding = subprocess.Popen(
            [sys.executable, "-c", program, staging.folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert adding.stdout is not None
        adding.stdout.readline()
    if left(store):
        assert "The next sweep tries again" in caplog.text
    adding.kill()
    adding.communicate()
    monkeypatch.undo()
    store.sweep()
    assert left(store) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_said_clearly_and_leaves_nothing(small_disk: Path) -> None:
    def until_full(tree: Path) -> None:
        for number in range(1000):
            (tree / f"lib/{number}").touch()
        with open(tree / "filling", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            file.writelines(itertools.repeat(bytes(4096)))

    store = LayerStore(str(small_disk / "store"))
    with pytest.raises(Unavailable, match="the disk that holds packages is full"):
        make_spoilt(store, until_full)
    assert store.names() == left(store) == []
    assert make(store).name == NAME


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o775)
    with pytest.raises(Misconfigured, match="Other users may write to the folder"):
        LayerStore(str(folder))
    folder.chmod(0o700)
    LayerStore(str(folder))
    (folder / "layers").chmod(0o777)
    with pytest.raises(Misconfigured, match="Other users may write to the folder"):
        LayerStore(str(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    os.chown(folder, 1000, 1000)
    with pytest.raises(Misconfigured, match="belongs to another user"):
        LayerStore(str(folder))


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match=f"cannot be made: {os.strerror(errno.ENOTDIR)}"):
        LayerStore(str(tmp_path / "file/store"))


def test_no_descriptor_is_left_open(store: LayerStore) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    make(store)
    before = count()
    make(store, OTHER)
    store.remove(NAME)
    with pytest.raises(Refused):
        make_spoilt(store, lambda tree: os.mkfifo(tree / "pipe"))
    assert store.find(NAME) is None
    rewrite(_found(store, OTHER))
    store.find(OTHER)
    store.sweep()
    store.make_room(0)
    assert count() == before
