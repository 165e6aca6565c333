"""The wheel, in a fresh virtual environment on a bare Debian, used by an ordinary user without sudo, apt or Node."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = Path(sys.prefix) / "debian"  # made once; `make clean` removes it
# What a user types.  The request comes from Python, since there is no curl.
SESSION = """
set -eu
python3 -m venv package
package/bin/pip install --quiet --no-compile {wheel}
cloche=package/bin/cloche
echo "user $(id -u), node $(command -v node || echo none), apt $(command -v sudo || echo none)"
$cloche setup --slim 2>&1
$cloche setup --slim 2>&1
$cloche run -c 'import numpy, sys; print("sum", numpy.arange(4).sum(), sys.version_info[:2])'
$cloche run --json -c 'import pandas' || echo "exit code $?"
$cloche serve --port 0 >served 2>log & server=$!
while ! grep -q "data  " served; do kill -0 $server; sleep 0.1; done
python3 - "$(head -n 1 served)" "$($cloche key)" <<'END'
import json, sys, urllib.request
address = sys.argv[1].split("ready at ")[1]
def ask(path, body=None):
    headers = {{"Authorization": f"Bearer {{sys.argv[2]}}", "Content-Type": "application/json"}}
    request = urllib.request.Request(address + path, body and json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request, timeout=30).read().decode()
print("ready", ask("/v1/ready"))
print("answer", json.loads(ask("/v1/run", {{"code": "print(6 * 7)"}}))["stdout"])
print("page", "<title>" in ask("/"))
END
kill $server
wait $server || true
"""


@pytest.fixture(scope="module")
def debian() -> Path:
    made = subprocess.run(
        [str(ROOT / "scripts" / "debian-root"), str(DEBIAN)], capture_output=True, text=True, timeout=300, check=False
    )
    if made.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(made.stderr)
        pytest.skip(f"no Debian to install the package in: {made.stderr.strip()}")
    return DEBIAN


def pip_settings() -> dict[str, str]:
    """The host's settings of pip, as it reports them, for a pip that sees none of its files."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    rows = subprocess.run(pip, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    found = {}
    for row in sorted(rows, key=lambda row: row.startswith(":env:")):  # variables come before files
        name, _, value = row.partition("=")
        found["PIP_" + name.rpartition(".")[2].upper().replace("-", "_")] = shlex.split(value)[0]
    return found


@pytest.mark.timeout(400)
def test_a_package_works_for_an_ordinary_user_of_a_bare_debian(jail: None, debian: Path, tmp_path: Path) -> None:
    if not (ROOT / "src/cloche/doors/page/built/index.html").is_file():
        pytest.skip("the playground is not built; run `make page`")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=100, check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    home = tmp_path / "home"
    home.mkdir()
    shutil.move(wheel, home / wheel.name)
    os.chown(home, 1000, 1000)
    home.chmod(0o700)
    settings = pip_settings()
    proxies = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    files = [path for path in ("/etc/resolv.conf", "/etc/hosts", *settings.values()) if path.startswith("/")]
    shown = [path for path in files if os.path.exists(path)]
    enter = [sys.executable, str(Path(__file__).with_name("enter_root.py")), str(debian), str(home), *shown, "--"]
    session = SESSION.format(wheel=f"./{wheel.name}")

    done = subprocess.run(
        [*enter, "/bin/sh", "-c", session],
        env={**proxies, **settings, "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    told, log = done.stdout, home / "log"
    assert done.returncode == 0, told + done.stderr + (log.read_text() if log.exists() else "")
    assert "user 1000, node none, apt none" in told
    assert "about 50 MB to download, 190 MB on the disk" in told
    assert told.count("installing the locked packages") == 1, "the second setup finds everything there"
    assert "sum 6 (3, " in told
    assert "on the host, `cloche setup` installs the full set of libraries" in told
    assert 'ready {"status":"ok"}' in told
    assert "answer 42" in told
    assert "page True" in told
    assert list((home / ".local/share/cloche/environments").glob("python-3.*-usr/manifest.json"))
