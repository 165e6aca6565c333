"""Builds the environment: the locked packages, laid out and compiled for the paths that a sandbox sees."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cloche.environment import MANIFEST, interpreter, is_built, is_slim, manifest, node_packages, typescript, wheels
from cloche.environment.commands import call
from cloche.environment.failure import BuildFailed
from cloche.environment.progress import Progress, Silent, only_builder

__all__ = ["FULL", "SLIM", "BuildFailed", "Size", "build", "download", "fingerprint", "is_complete"]

INSIDE = "/opt/env"
INSIDE_PYTHON = "/opt/python"

# Raise it when the builder makes something else from the same lock; then run scripts/lock.
_BUILDER = 5

_HERE = Path(__file__).parent
_SITE = _HERE / "sitecustomize.py"


@dataclass(frozen=True)
class Size:
    """What an environment takes, roughly: megabytes to download, megabytes on the disk, and minutes."""

    download_mb: int
    disk_mb: int
    minutes: str


FULL = Size(500, 2100, "3 to 7 minutes")
SLIM = Size(50, 190, "less than a minute")


def build(
    target: Path,
    python: str | None = None,
    progress: Progress | None = None,
    slim: bool = False,
    source: Path | None = None,
    lock: Path = wheels.LOCK,
) -> None:
    """Builds the environment at `target` unless it is complete; other processes see all of it or nothing.

    `source` is a folder that `download` filled; then nothing is downloaded.
    """
    progress = progress or Silent()
    target = Path(os.path.abspath(target))
    _make_folder(target)
    with only_builder(target, progress) as progress:
        if is_complete(target, slim):
            return
        _check_target(target)
        _check_room(target.parent, SLIM if slim else FULL)
        partial = target.with_name(f".{target.name}.partial")
        fetched = target.with_name(f".{target.name}.wheels")
        shutil.rmtree(partial, ignore_errors=True)  # left by an interrupted build
        order = _Order(_inspect(python or _base_interpreter()), wheels.requirements(slim, lock), slim, source, fetched)
        try:
            _build_into(partial, order, progress)
            _replace(target, partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(fetched, ignore_errors=True)
        _remove_older(target, progress)


def is_complete(target: Path, slim: bool = False) -> bool:
    """Is there the environment that is wanted, with everything that this host allows?"""
    if not is_built(target) or is_slim(target) != slim:
        return False
    return slim or bool(manifest(target).get("node_packages")) or bool(node_packages.lacks())


def download(folder: Path, progress: Progress | None = None, slim: bool = False, lock: Path = wheels.LOCK) -> None:
    """Downloads everything that `build` needs on a machine without a network, with the same Python."""
    progress = progress or Silent()
    progress.step("downloading the locked packages")
    _make_folder(folder / "any")
    wheels.fetch(wheels.requirements(slim, lock), folder, progress.count)
    if not slim and not node_packages.lacks():
        progress.step("downloading the locked Node packages")
        node_packages.store(folder / node_packages.CACHE)


def fingerprint() -> str:
    """Returns twelve hex digits that change with the locks, our own files or the builder's version."""
    contents = b"".join(path.read_bytes() for path in (wheels.LOCK, node_packages.LOCK, _SITE, *typescript.OURS))
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


@dataclass(frozen=True)
class _Order:
    """The environment that is wanted, and where its packages come from."""

    base: _Base
    packages: list[wheels.Requirement]
    slim: bool
    source: Path | None  # a prepared folder
    fetched: Path  # the folder for downloads, which outlives an interrupted build


def _build_into(env: Path, order: _Order, progress: Progress) -> None:
    base = order.base
    site_packages = env / "lib" / base.name / "site-packages"
    site_packages.mkdir(parents=True)
    (env / "bin").mkdir()
    _install(site_packages, order, progress)
    shutil.copy(_SITE, site_packages)
    _spread_out(site_packages, env)
    _point_scripts_inside(env / "bin")
    _link_interpreter(env, base)
    if not order.slim:
        _install_node_packages(env, order.source, progress)
    progress.step("compiling the packages")
    _compile(site_packages, env, base)
    if (site_packages / "matplotlib").is_dir():
        progress.step("listing the fonts")
        _list_fonts(site_packages, env, base)
    _write_manifest(site_packages, env, order)
    _let_everyone_read(env)


def _install(site_packages: Path, order: _Order, progress: Progress) -> None:
    if order.source is None:
        progress.step("downloading the locked packages")
        wheels.fetch(order.packages, order.fetched, progress.count)
    elif lacking := wheels.missing(order.packages, order.source):
        names = ", ".join(each.name for each in lacking[:3]) + (" and others" if len(lacking) > 3 else "")
        raise BuildFailed(
            f"{order.source} lacks the wheels of {names}; fill it with `cloche setup --download FOLDER` on a machine "
            "with a network and the same version of Python"
        )
    progress.step("installing the locked packages")
    with tempfile.TemporaryDirectory(dir=site_packages.parent) as temporary:
        listing = Path(temporary, "packages.txt")
        listing.write_text("".join(f"{each.text}\n" for each in order.packages))
        command = [*wheels.pip_command(), "--python", order.base.executable, "--quiet", "install", "--no-index"]
        command += ["--find-links", str(order.source or order.fetched), "--require-hashes", "--no-deps"]
        command += ["--only-binary", ":all:", "--no-compile", "--no-cache-dir", "--requirement", str(listing)]
        # pip installs into a temporary folder first: on the same disk it can move the files, and need not copy them.
        settings = {**wheels.PIP_SETTINGS, "TMPDIR": temporary}
        call("pip", [*command, "--target", str(site_packages)], settings)


def _install_node_packages(env: Path, source: Path | None, progress: Progress) -> None:
    if lacking := node_packages.lacks():
        progress.step(f"{lacking} not found: TypeScript will not be available until `cloche setup` finds Node and npm")
        return
    cache = source / node_packages.CACHE if source else None
    if cache and not cache.is_dir():
        progress.step(f"{source} has no Node packages: TypeScript will not be available")
        return
    progress.step("installing the locked Node packages")
    node_packages.install(env, cache)


def _spread_out(site_packages: Path, env: Path) -> None:
    # pip --target puts the folders that belong beside lib/ among the packages. (--prefix would not, but on Debian it
    # uses another layout.)
    for name in ("bin", "etc", "include", "man", "share"):
        if (site_packages / name).is_dir():
            (site_packages / name).replace(env / name)


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
    # Only with the system's packages does Python look for packages that a user has installed (sitecustomize.py), and
    # does pip install some.  The jail hides the system's packages.
    (env / "pyvenv.cfg").write_text(
        f"home = {INSIDE_PYTHON}/bin\ninclude-system-site-packages = true\nversion = {base.version}\n"
    )
    binary = Path(base.prefix, "bin", base.name)
    try:
        patched = interpreter.relocated(binary, base.prefix, INSIDE_PYTHON)
    except (OSError, interpreter.NotPatchable) as error:
        raise BuildFailed(f"{error}; use another Python") from error
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
        call("listing the fonts", [*command, str(site_packages), str(env / "share" / "matplotlib")], settings)


def _write_manifest(site_packages: Path, env: Path, order: _Order) -> None:
    found = importlib.metadata.distributions(path=[str(site_packages)])
    contents = {
        "fingerprint": fingerprint(),
        "variant": "slim" if order.slim else "full",
        "lock": hashlib.sha256(wheels.LOCK.read_bytes()).hexdigest(),
        "python": order.base.version,
        "packages": dict(sorted((package.name.lower(), package.version) for package in found)),
        "node_packages": node_packages.installed(env),
    }
    (env / MANIFEST).write_text(json.dumps(contents, indent=2) + "\n")


def _let_everyone_read(env: Path) -> None:
    # A sandbox has a uid of its own, and the umask here may be a private one.
    for directory, _, files in os.walk(env):
        os.chmod(directory, 0o755)
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.stat(path).st_mode & 0o100 else 0o644)


def _replace(target: Path, partial: Path) -> None:
    """Put a complete environment into its place; a server that uses the one there has to be started again."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _remove_older(target: Path, progress: Progress) -> None:
    named = re.fullmatch(r"(python-3\.\d+-)[0-9a-f]{12}(-.*)?", target.name)
    if named is None:
        return  # the operator chose this place; the folders beside it are not ours
    for sibling in target.parent.iterdir():
        ours = re.fullmatch(
            rf"\.?{re.escape(named[1])}[0-9a-f]{{12}}{re.escape(named[2] or '')}(\.wheels|\.old)?", sibling.name
        )
        if sibling != target and ours:
            progress.step(f"removing the older environment {sibling.name}")
            (sibling / MANIFEST).unlink(missing_ok=True)  # first: a half-removed environment must not look complete
            shutil.rmtree(sibling, ignore_errors=True)


def _make_folder(target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        writable = os.access(target.parent, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise BuildFailed(f"{target.parent} cannot be written; name another folder with CLOCHE_ENVIRONMENT")


def _check_target(target: Path) -> None:
    # The operator may have named a folder with other things in it.  What is there is replaced.
    if target.is_dir() and os.listdir(target) and not is_built(target):
        raise BuildFailed(f"{target} has files that are not an environment; remove them, or name another folder")


def _check_room(folder: Path, size: Size) -> None:
    wanted_mb = size.disk_mb + size.download_mb
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < wanted_mb:
        raise BuildFailed(f"{folder} has {free_mb} MB free, and the build needs about {wanted_mb} MB")


def _base_interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _inspect(python: str) -> _Base:
    question = "import sys; print(sys.base_prefix, '%d.%d.%d' % sys.version_info[:3], sep='\\n')"
    prefix, version = call("python", [python, "-I", "-S", "-c", question], {}).splitlines()
    return _Base(python, prefix, version)
