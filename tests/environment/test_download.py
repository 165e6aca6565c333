"""The locked packages are downloaded from an index on loopback that counts what it serves."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
from tests.waiting import eventually

from cloche.environment import MANIFEST, build, is_built, manifest, wheels

NAMES = ("ant", "bee", "cat", "dog", "eel")


def wheel(name: str) -> bytes:
    """A wheel with one module."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": f"NAME = {name!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return data.getvalue()


class Index(ThreadingHTTPServer):
    """A package index that counts downloads, and can hold one package back or damage it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.wheels = {name: wheel(name) for name in NAMES}
        self.served: Counter[str] = Counter()
        self.held_back = ""
        self.go_on = threading.Event()
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def settings(self) -> dict[str, str]:
        """The environment of a build that uses this index alone, and has no Node."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        url = f"http://127.0.0.1:{self.server_address[1]}/simple"
        return {**kept, "PIP_INDEX_URL": url, "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1", "PATH": "/nowhere"}


class _Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        name = self.path.strip("/").split("/")[1].partition("-")[0]
        if name not in self.server.wheels:
            self.send_error(404)
        elif self.path.endswith(".whl"):
            self.server.served[name] += 1
            if name == self.server.held_back:
                self.server.go_on.wait(60)
            self._send(self.server.wheels[name], "application/octet-stream")
        else:
            file = f"{name}-1.0-py3-none-any.whl"
            self._send(f'<a href="/files/{file}">{file}</a>'.encode(), "text/html")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with Index() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        for name, value in running.settings.items():
            monkeypatch.setenv(name, value)
        yield running
        running.go_on.set()
        running.shutdown()


@pytest.fixture
def lock(index: Index, tmp_path: Path) -> Path:
    path = tmp_path / "packages.lock"
    lines = [f"{n}==1.0 \\\n    --hash=sha256:{hashlib.sha256(w).hexdigest()}\n" for n, w in index.wheels.items()]
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_build_is_not_complete_and_downloads_no_wheel_twice(
    index: Index, lock: Path, tmp_path: Path, number: signal.Signals
) -> None:
    target = tmp_path / "place" / "env"
    program = f"from pathlib import Path; from cloche.environment import build; P = Path; \
build.build(P({str(target)!r}), lock=P({str(lock)!r}))"
    index.held_back = "eel"
    first = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    fetched = target.with_name(".env.wheels")
    eventually(lambda: index.served["eel"] == 1 and len(list(fetched.glob("*.whl"))) == 4)
    first.send_signal(number)
    first.wait(30)
    assert not is_built(target)

    index.held_back = ""
    build.build(target, lock=lock)

    assert index.served == {"ant": 1, "bee": 1, "cat": 1, "dog": 1, "eel": 2}
    assert set(manifest(target)["packages"]) == set(NAMES)
    assert {path.name for path in target.parent.iterdir()} == {"env", ".lock"}


def test_a_wheel_that_is_not_the_locked_one_is_refused(index: Index, lock: Path, tmp_path: Path) -> None:
    index.wheels["cat"] = wheel("ant").replace(b"NAME", b"EVIL")
    with pytest.raises(build.BuildFailed, match=r"cat 1\.0 could not be downloaded: .*(?s:.)*hash"):
        build.build(tmp_path / "env", lock=lock)
    assert not is_built(tmp_path / "env")
    assert not list((tmp_path / ".env.wheels").glob("cat*"))


def test_a_damaged_file_in_the_folder_is_downloaded_again(index: Index, lock: Path, tmp_path: Path) -> None:
    wheels.fetch(wheels.requirements(False, lock), tmp_path / "wheels")
    (tmp_path / "wheels" / "bee-1.0-py3-none-any.whl").write_bytes(b"half")
    wheels.fetch(wheels.requirements(False, lock), tmp_path / "wheels")
    assert index.served["bee"] == 2
    assert index.served["ant"] == 1
    assert wheels.missing(wheels.requirements(False, lock), tmp_path / "wheels") == []


def test_a_folder_that_was_filled_elsewhere_is_enough(index: Index, lock: Path, tmp_path: Path) -> None:
    build.download(tmp_path / "folder", lock=lock)
    index.wheels.clear()
    build.build(tmp_path / "env", source=tmp_path / "folder", lock=lock)
    assert set(manifest(tmp_path / "env")["packages"]) == set(NAMES)
    (tmp_path / "folder" / "dog-1.0-py3-none-any.whl").unlink()
    shutil.rmtree(tmp_path / "env")
    with pytest.raises(build.BuildFailed, match="folder lacks the wheels of dog; fill it with"):
        build.build(tmp_path / "env", source=tmp_path / "folder", lock=lock)


def test_without_a_network_one_sentence_names_the_package(index: Index, lock: Path, tmp_path: Path) -> None:
    index.wheels.clear()
    with pytest.raises(build.BuildFailed) as failure:
        build.build(tmp_path / "env", lock=lock)
    assert "could not be downloaded: No matching distribution found" in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_python_without_pip_takes_the_one_that_it_brings_for_virtual_environments(
    index: Index, lock: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    lock.write_text("".join(lock.read_text().splitlines(keepends=True)[:2]))
    subprocess.run([sys._base_executable, "-m", "venv", "--without-pip", str(bare)], check=True)  # type: ignore[attr-defined]
    program = f"""if True:
        import sys
        sys.path.append({str(Path(build.__file__).parents[2])!r})
        from pathlib import Path
        from cloche.environment import build
        build.build(Path({str(tmp_path / "env")!r}), lock=Path({str(lock)!r}))
    """
    subprocess.run([str(bare / "bin" / "python"), "-c", program], check=True, timeout=100)
    assert set(manifest(tmp_path / "env")["packages"]) == {"ant"}


def test_a_folder_with_other_things_is_not_replaced(index: Index, lock: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(build.BuildFailed, match="not an environment"):
        build.build(tmp_path / "mine", lock=lock)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    assert not (tmp_path / "mine" / MANIFEST).exists()
