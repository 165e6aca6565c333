"""Makes wheels for tests: correct ones, and ones with a single fault."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

from cloche.packages import wheel as wheel_module

SCRIPT = Path(wheel_module.__file__).with_name("unpack.py")
SITE = "lib/python3.11/site-packages"


def hashed(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_wheel(
    folder: Path,
    files: dict[str, bytes] | None = None,
    name: str = "demo",
    version: str = "1.0",
    *,
    file: str | None = None,
    info: str | None = None,
    metadata: str = "",
    wheel_version: str = "1.0",
    entry_points: str = "",
    record: Any = lambda text: text,
    entries: list[tuple[zipfile.ZipInfo, bytes]] | None = None,
) -> Path:
    """Write a wheel; `entries` are added as they are, and `record` changes the finished RECORD."""
    info = info or f"{name}-{version}.dist-info"
    contents = dict(files if files is not None else {f"{name}/__init__.py": b"answer = 42\n"})
    contents[f"{info}/METADATA"] = (metadata or f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n").encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: {wheel_version}\nTag: py3-none-any\n".encode()
    if entry_points:
        contents[f"{info}/entry_points.txt"] = entry_points.encode()
    added = [*((zipfile.ZipInfo(path), data) for path, data in contents.items()), *(entries or [])]
    lines = [f'"{entry.orig_filename}",{hashed(data)},{len(data)}' for entry, data in added]
    text = record("\n".join([*lines, f"{info}/RECORD,,\n"]))
    if text is not None:
        added.append((zipfile.ZipInfo(f"{info}/RECORD"), text.encode()))
    path = folder / (file or f"{name}-{version}-py3-none-any.whl")
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # duplicate names are what some tests want
        for entry, data in added:
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def entry(name: str, data: bytes = b"", mode: int = 0) -> tuple[zipfile.ZipInfo, bytes]:
    found = zipfile.ZipInfo(name)
    found.external_attr = mode << 16
    return found, data


def patch(path: Path, name: str, field: str, value: int, headers: str = "both") -> None:
    """Change a field of an entry in its own header, in the archive's directory, or in both."""
    in_local, size = {"flags": (6, 2), "method": (8, 2), "size": (22, 4)}[field]
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        start, directory = archive.getinfo(name).header_offset, archive.start_dir
    in_directory = data.index(name.encode(), directory) - 46
    if headers != "directory":
        data[start + in_local : start + in_local + size] = value.to_bytes(size, "little")
    if headers != "own":
        at = in_directory + in_local + 2
        data[at : at + size] = value.to_bytes(size, "little")
    path.write_bytes(data)


def unpack(wheels: Path, target: Path) -> dict[str, Any]:
    """Run the script as a sandbox does; return its line."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(wheels), str(target), "python3.11"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    answer: dict[str, Any] = json.loads(ended.stdout)
    assert ended.returncode == ("problem" in answer)
    return answer
