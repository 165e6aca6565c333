import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cloche.environment import interpreter


def elf_with_runpath(runpath: bytes) -> bytes:
    """Makes a 64-bit ELF file with only a dynamic section and its strings, loaded 0x1000 above their file offset."""
    strings = b"\0libpython.so\0" + runpath + b"\0tail\0"
    strings_at = 64 + 2 * 56 + 4 * 16
    dynamic = struct.pack("<qQqQqQqQ", 1, 1, 29, strings.index(runpath), 5, 0x1000 + strings_at, 0, 0)
    size = strings_at + len(strings)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x1000, 0, size, size, 0x1000)
    table = struct.pack("<IIQQQQQQ", 2, 6, 64 + 2 * 56, 0x1000 + 64 + 2 * 56, 0, len(dynamic), len(dynamic), 8)
    return header + load + table + dynamic + strings


def runpath_of(data: bytes) -> str | None:
    runpath = interpreter.find_runpath(data)
    return runpath.value if runpath else None


@pytest.fixture
def prefix(tmp_path):
    (tmp_path / "lib").mkdir()
    return str(tmp_path)


def test_a_library_path_under_the_prefix_moves_inside(tmp_path, prefix):
    binary = tmp_path / "python"
    binary.write_bytes(elf_with_runpath(f"{prefix}/lib".encode()))
    moved = interpreter.relocated(binary, prefix, "/opt/python")
    assert moved is not None
    assert runpath_of(moved) == "/opt/python/lib"
    assert len(moved) == binary.stat().st_size
    assert moved.endswith(b"\0tail\0")


def test_a_link_to_the_prefix_is_the_prefix(tmp_path, prefix):
    link = tmp_path / "a-link-that-is-long-enough"
    link.symlink_to(prefix)
    binary = tmp_path / "python"
    binary.write_bytes(elf_with_runpath(f"{link}/lib".encode()))
    moved = interpreter.relocated(binary, prefix, "/opt/python")
    assert moved is not None
    assert runpath_of(moved) == "/opt/python/lib"


@pytest.mark.parametrize("runpath", ["/usr/lib/python", "/lib64", "$ORIGIN/../lib", "/elsewhere/lib"])
def test_a_library_path_that_holds_inside_is_left_alone(tmp_path, prefix, runpath):
    binary = tmp_path / "python"
    binary.write_bytes(elf_with_runpath(runpath.encode()))
    assert interpreter.relocated(binary, prefix, "/opt/python") is None


def test_a_library_path_without_room_for_the_new_one_is_refused(tmp_path):
    binary = tmp_path / "python"
    binary.write_bytes(elf_with_runpath(b"/p/lib"))
    with pytest.raises(interpreter.NotPatchable, match="too short"):
        interpreter.relocated(binary, "/p", "/opt/python")


def test_what_is_not_an_elf_file_has_no_library_path():
    assert interpreter.find_runpath(b"#!/bin/sh\n") is None


def test_a_real_interpreter_still_starts_after_its_library_path_moved():
    original = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    # Not tmp_path: the new path must fit where the old one was.
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as folder:
        inside = Path(folder, "i")
        inside.symlink_to(sys.base_prefix)
        moved = interpreter.relocated(original, sys.base_prefix, str(inside))
        if moved is None:
            pytest.skip("this Python runs at another prefix as it is")
        binary = Path(folder, "python")
        binary.write_bytes(moved)
        binary.chmod(0o755)
        library = f"{os.path.realpath(sys.base_prefix)}/lib/libpython"
        assert library in libraries_of(binary)
        inside.unlink()
        assert library not in libraries_of(binary), "found by the old path"


def libraries_of(python: Path) -> str:
    command = [str(python), "-S", "-c", "print(open('/proc/self/maps').read())"]
    return subprocess.run(
        command, env={"PYTHONHOME": sys.base_prefix}, capture_output=True, text=True, check=False
    ).stdout
