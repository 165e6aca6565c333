"""Layers of packages: no sandbox can change one, and so none can reach another sandbox through it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.escape.conftest import Attack

import cloche
from cloche.packages import of_this_host

# Everything that a program can do to change a file of a layer, or one that others would get.
CODE = """
import os, errno, ctypes
import cowsay
path = os.path.realpath(cowsay.__file__)
folder = os.path.dirname(path)
libc = ctypes.CDLL(None, use_errno=True)
done = []

def attempt(name, action):
    try:
        action()
    except (OSError, ValueError):
        return
    done.append(name)

def through_proc():
    with open(path) as reading, open(f"/proc/self/fd/{reading.fileno()}", "w") as writing:
        writing.write("x = 666")

def by_link():
    os.link(path, "/sandbox/linked.py")
    open("/sandbox/linked.py", "a").write("x = 666")

def in_another_mount():
    place = b"/sandbox/temp"
    if libc.mount(folder.encode(), place, None, 4096, None) or libc.mount(None, place, None, 4128, None):
        raise OSError(ctypes.get_errno(), "mount")

def over_it():
    if libc.mount(b"none", b"/opt/layers/0", b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")

def away():
    if libc.umount2(b"/opt/layers/0", 2):
        raise OSError(ctypes.get_errno(), "umount")

def times():
    os.utime(path, (1, 1))

def attribute():
    os.setxattr(path, "user.x", b"1")

attempt("rights", lambda: os.chmod(path, 0o666))
attempt("write", lambda: open(path, "a").write("x = 666"))
attempt("proc", through_proc)
attempt("link", by_link)
attempt("new file", lambda: open(f"{folder}/evil.py", "w").write("x"))
attempt("remove", lambda: os.unlink(f"{folder}/main.py"))
attempt("rename", lambda: os.rename("/opt/layers/0", "/opt/layers/1"))
attempt("replace", lambda: os.rename(f"{folder}", f"{folder}2"))
attempt("mount", in_another_mount)
attempt("cover", over_it)
attempt("unmount", away)
attempt("times", times)
attempt("attribute", attribute)
print(",".join(done))
"""


def test_no_layer_can_be_changed(jail: None) -> None:
    assert cloche.run(CODE, packages=["cowsay==6.1"]).stdout == "\n"
    # Another sandbox still gets what the index sent.
    code = "import cowsay; print(hasattr(cowsay, 'x'), cowsay.__version__)"
    assert cloche.run(code, packages=["cowsay==6.1"]).stdout == "False 6.1\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="for root the owner of the files protects them as well")
def test_without_the_read_only_mount_the_same_attacks_get_through(
    attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_PACKAGES_FOLDER", str(tmp_path / "packages"))
    result = cloche.run(CODE, packages=["cowsay==6.1"], wall=attack.jail("layers"))
    assert {"rights", "write", "proc"} <= set(result.stdout.strip().split(","))
    of_this_host.shared().layers.sweep()


def test_a_sandbox_sees_no_layer_but_its_own(jail: None) -> None:
    with cloche.Sandbox(packages=["cowsay==6.1"]) as first, cloche.Sandbox(packages=["humanize==4.9.0"]) as second:
        for box, name in ((first, "cowsay"), (second, "humanize")):
            found = box.commands.run("ls /opt/layers/*/lib/*/site-packages | grep -v dist-info").stdout.split()
            assert found == [name]


def test_a_path_of_the_host_is_not_in_the_memory_of_a_sandbox(jail: None) -> None:
    """The nursery passes requests on without reading them: sandboxes are forks of it."""
    code = """
import re
# Never the whole path as one object, which would be found itself.
pattern = re.compile(rb"/st[o]re/layers")
found = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in list(maps):
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        for place in range(start, end, 1 << 20) if rights.startswith("rw") else ():
            try:
                memory.seek(place)
                found += len(pattern.findall(memory.read(min(end - place, (1 << 20) + 4096))))
            except OSError:
                break
print(found)
"""
    with cloche.Sandbox(packages=["cowsay==6.1"]) as box:
        assert box.run(code).stdout == "0\n"
    assert cloche.run(code, packages=["cowsay==6.1"]).stdout == "0\n"
