"""Builds the environment: the locked packages, laid out and compiled for the paths that a sandbox sees."""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cloche.environment import MANIFEST, interpreter, is_built, typescript

__all__ = ["BuildFailed", "build", "fingerprint"]

INSIDE = "/opt/env"
INSIDE_PYTHON = "/opt/python"

# Raise it when the builder makes something else from the same lock; then run scripts/lock.
_BUILDER = 2

_HERE = Path(__file__).parent
_LOCK = _HERE / "packages.lock"
_NODE_LOCK = _HERE / "package-lock.json"  # beside package.json, as npm wants both


class BuildFailed(RuntimeError):
    """The environment could not be built; the message names the step that failed and quotes its output."""


def build(target: Path, python: str | None = None, report: Callable[[str], None] = print) -> None:
    """Builds the environment at `target` unless it exists; other processes see all of it or nothing."""
    target = Path(os.path.abspath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(target.parent):
        if is_built(target):
            return
        partial = target.with_name(f".{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # left by an interrupted build
        try:
            _build_into(partial, _inspect(python or _base_interpreter()), report)
            shutil.rmtree(target, ignore_errors=True)  # it has no manifest, so it is not a complete environment
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        _remove_older(target, report)


def fingerprint() -> str:
    """Returns twelve hex digits that change with the locks, our own files or the builder's version."""
    contents = b"".join(path.read_bytes() for path in (_LOCK, _NODE_LOCK, *typescript.OURS))
    return hashlib.sha256(contents + f"builder {_BUILDER}".encode()).hexdigest()[:12]


@dataclass(frozen=True)
class _Base:
    """The interpreter that the environment is for."""

    executable: str
    prefix: str
    version: str

    @property
    def name(self) -> str:
        """The interpreter's name with its version, such as `python3.11`."""
        return "python" + ".".join(self.version.split(".")[:2])


def _build_into(env: Path, base: _Base, report: Callable[[str], None]) -> None:
    site_packages = env / "lib" / base.name / "site-packages"
    site_packages.mkdir(parents=True)
    report("installing the locked packages")
    _install(site_packages, base)
    _spread_out(site_packages, env)
    _point_scripts_inside(env / "bin")
    _link_interpreter(env, base)
    _install_node_packages(env, report)
    report("compiling the packages")
    _compile(site_packages, env, base)
    report("listing the fonts")
    _list_fonts(site_packages, env, base)
    _write_manifest(site_packages, env, base)
    _let_everyone_read(env)


def _install(site_packages: Path, base: _Base) -> None:
    # The pip of the running interpreter, so that the user's index, proxy and certificates are honoured; but not the
    # settings that would send the packages elsewhere.
    settings = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [sys.executable, "-m", "pip", "--python", base.executable, "--quiet", "--no-input", "install"]
    # The lock is complete, and every package in it has wheels: nothing is resolved, and nobody's build script runs.
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"]
    _call("pip", [*command, "--target", str(site_packages), "--requirement", str(_LOCK)], settings)


def _install_node_packages(env: Path, report: Callable[[str], None]) -> None:
    """Installs what JavaScript and TypeScript need beside Node: compilers, and declarations to check against."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        report(f"{' and '.join(missing)} not found: TypeScript will not be available")
        return
    report("installing the locked Node packages")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", _NODE_LOCK.name):
            shutil.copy(_HERE / name, folder)
        # The user's npm, so that the registry, proxy and certificates are honoured; nobody's install script runs.
        command = [
            "npm",
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--prefix",
            folder,
        ]
        _call("npm", command, {})
        shutil.copytree(Path(folder, "node_modules"), env / "lib" / "node_modules", symlinks=True)
    typescript.furnish(env)


def _spread_out(site_packages: Path, env: Path) -> None:
    # pip --target puts the folders that belong beside lib/ among the packages. (--prefix would not, but on Debian it
    # uses another layout.)
    for name in ("bin", "etc", "include", "man", "share"):
        if (site_packages / name).is_dir():
            (site_packages / name).rename(env / name)


def _point_scripts_inside(scripts: Path) -> None:
    for script in scripts.iterdir():
        text = script.read_bytes()
        # The second form is what pip writes when the interpreter's path is too long for a first line.
        text = re.sub(rb"\A#!(/bin/sh\n'''exec' [^\n]*\n' '''|[^\n]*python[^\n]*)\n", _SHEBANG, text)
        script.write_bytes(text)


_SHEBANG = f"#!{INSIDE}/bin/python3\n".encode()


def _link_interpreter(env: Path, base: _Base) -> None:
    for name in ("python", "python3", base.name):
        (env / "bin" / name).symlink_to(f"{INSIDE_PYTHON}/bin/{base.name}")
    (env / "pyvenv.cfg").write_text(
        f"home = {INSIDE_PYTHON}/bin\ninclude-system-site-packages = false\nversion = {base.version}\n"
    )
    binary = Path(base.prefix, "bin", base.name)
    try:
        patched = interpreter.relocated(binary, base.prefix, INSIDE_PYTHON)
    except (OSError, interpreter.NotPatchable) as error:
        raise BuildFailed(f"{error}; use another Python (make install PYTHON=…)") from error
    if patched is not None:
        copy = env / "interpreter" / base.name
        copy.parent.mkdir()
        copy.write_bytes(patched)
        copy.chmod(0o755)


def _compile(site_packages: Path, env: Path, base: _Base) -> None:
    # Unchecked: nothing in a sandbox can change these files, so no import needs to compare dates. The packages' own
    # tests are a third of the files and hardly ever imported.
    command = [base.executable, "-I", "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(env), "-p", INSIDE, "-x", f"{re.escape(str(site_packages))}/.*/tests/", str(site_packages)]
    # It fails when a single file does not compile, and some packages ship templates that are not quite Python.
    subprocess.run(command, check=False, stdin=subprocess.DEVNULL)


def _list_fonts(site_packages: Path, env: Path, base: _Base) -> None:
    with tempfile.TemporaryDirectory() as home:
        settings = {"HOME": home, "MPLCONFIGDIR": home, "MATPLOTLIBRC": home, "MPLBACKEND": "agg"}
        command = [base.executable, "-I", "-S", "-B", str(_HERE / "fonts.py")]
        _call("listing the fonts", [*command, str(site_packages), str(env / "share" / "matplotlib")], settings)


def _write_manifest(site_packages: Path, env: Path, base: _Base) -> None:
    found = importlib.metadata.distributions(path=[str(site_packages)])
    manifest = {
        "fingerprint": fingerprint(),
        "lock": hashlib.sha256(_LOCK.read_bytes()).hexdigest(),
        "python": base.version,
        "packages": dict(sorted((package.name.lower(), package.version) for package in found)),
        "node_packages": _node_packages(env),
    }
    (env / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _node_packages(env: Path) -> dict[str, str]:
    """Returns the installed Node packages with their versions; empty without Node."""
    installed = {}
    for path in sorted((env / "lib" / "node_modules").glob("**/package.json")):
        package = json.loads(path.read_text())
        if "name" in package and "version" in package:
            installed[package["name"]] = package["version"]
    return installed


def _let_everyone_read(env: Path) -> None:
    # A sandbox has a uid of its own, and the umask here may be a private one.
    for directory, _, files in os.walk(env):
        os.chmod(directory, 0o755)
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)


def _remove_older(target: Path, report: Callable[[str], None]) -> None:
    named = re.fullmatch(r"(python-3\.\d+-)[0-9a-f]{12}", target.name)
    if named is None:
        return  # the operator chose this place; the folders beside it are not ours
    for sibling in target.parent.iterdir():
        if sibling != target and re.fullmatch(re.escape(named[1]) + "[0-9a-f]{12}", sibling.name):
            report(f"removing the older environment {sibling.name}")
            (sibling / MANIFEST).unlink(missing_ok=True)  # first: a half-removed environment must not look complete
            shutil.rmtree(sibling, ignore_errors=True)


@contextmanager
def _only_builder(directory: Path) -> Iterator[None]:
    # The file stays: removing it would let two builders hold locks on two files of the same name.
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _base_interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _inspect(python: str) -> _Base:
    question = "import sys; print(sys.base_prefix, '%d.%d.%d' % sys.version_info[:3], sep='\\n')"
    prefix, version = _call("python", [python, "-I", "-S", "-c", question], {}).splitlines()
    return _Base(python, prefix, version)


def _call(step: str, command: list[str], settings: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise BuildFailed(f"{step}: {error}") from error
    if done.returncode != 0:
        raise BuildFailed(f"{step} failed:\n{(done.stderr or done.stdout).strip()}")
    return done.stdout
