"""The packages that the world outside offers, one tiny package in each format, made on the spot."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

from tests.network.world_web import ORIGIN

VERSION = "1.0.0"
_WHEEL = f"tiny_wheel-{VERSION}-py3-none-any.whl"
_INFO = f"tiny_wheel-{VERSION}.dist-info"


def write(content: Path) -> None:
    """Write all packages below a folder that the web server serves."""
    _pip(content / "simple")
    _npm(content / "npm")
    _cargo(content / "cargo")
    _git(content / "git" / "tiny.git")


def _pip(folder: Path) -> None:
    (place := folder / "tiny-wheel").mkdir(parents=True)
    files = {
        "tiny_wheel.py": "TEXT = 'tiny wheel'\n",
        f"{_INFO}/METADATA": f"Metadata-Version: 2.1\nName: tiny-wheel\nVersion: {VERSION}\n",
        f"{_INFO}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(place / _WHEEL, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        record = "".join(f"{name},,\n" for name in (*files, f"{_INFO}/RECORD"))
        wheel.writestr(f"{_INFO}/RECORD", record)
    digest = hashlib.sha256((place / _WHEEL).read_bytes()).hexdigest()
    (place / "index").write_text(f'<!doctype html><a href="{_WHEEL}#sha256={digest}">{_WHEEL}</a>\n')
    (folder / "index").write_text('<!doctype html><a href="tiny-wheel/">tiny-wheel</a>\n')


def _npm(folder: Path) -> None:
    (place := folder / "tiny-package").mkdir(parents=True)
    about = {"name": "tiny-package", "version": VERSION, "main": "index.js"}
    packed = _packed("package", {"package.json": json.dumps(about), "index.js": "module.exports = 'tiny package';\n"})
    name = f"tiny-package-{VERSION}.tgz"
    (place / "-").mkdir()
    (place / "-" / name).write_bytes(packed)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
    tarball = f"{ORIGIN.decode()}/npm/tiny-package/-/{name}"
    version = {**about, "dist": {"tarball": tarball, "integrity": integrity}}
    document = {"name": "tiny-package", "dist-tags": {"latest": VERSION}, "versions": {VERSION: version}}
    (place / "index").write_text(json.dumps(document))


def _cargo(folder: Path) -> None:
    folder.mkdir()
    origin = ORIGIN.decode()
    (folder / "config.json").write_text(json.dumps({"dl": f"{origin}/cargo/crates/{{crate}}-{{version}}.crate"}))
    manifest = f'[package]\nname = "tinycrate"\nversion = "{VERSION}"\nedition = "2018"\n'
    packed = _packed(
        f"tinycrate-{VERSION}",
        {"Cargo.toml": manifest, "src/lib.rs": 'pub const TEXT: &str = "tiny crate";\n'},
    )
    (folder / "crates").mkdir()
    (folder / "crates" / f"tinycrate-{VERSION}.crate").write_bytes(packed)
    checksum = hashlib.sha256(packed).hexdigest()
    line = {"name": "tinycrate", "vers": VERSION, "deps": [], "cksum": checksum, "features": {}, "yanked": False}
    (place := folder / "ti" / "ny").mkdir(parents=True)
    (place / "tinycrate").write_text(json.dumps(line) + "\n")


def _git(folder: Path) -> None:
    source = folder.parent / "source"
    source.mkdir(parents=True)
    (source / "README").write_text("tiny repository\n")
    somebody = ("-c", "user.name=Test", "-c", "user.email=test@world.test", "-c", "init.defaultBranch=main")
    for command in (
        ("init", "--quiet"),
        ("add", "README"),
        ("commit", "--quiet", "--message", "Start"),
        ("clone", "--quiet", "--bare", ".", str(folder)),
        ("-C", str(folder), "update-server-info"),
    ):
        subprocess.run(["git", *somebody, *command], cwd=source, check=True, capture_output=True, timeout=30)


def _packed(top: str, files: dict[str, str]) -> bytes:
    """A compressed archive of a folder with these files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()
