"""Installs the locked Node packages: compilers for JavaScript and TypeScript, and declarations to check against."""

import json
import shutil
import tempfile
from pathlib import Path

from cloche.environment import typescript
from cloche.environment.commands import call

__all__ = ["CACHE", "LOCK", "install", "installed", "lacks", "store"]

CACHE = "npm"  # in a folder for machines without a network

_HERE = Path(__file__).parent
LOCK = _HERE / "package-lock.json"  # beside package.json, as npm wants both
_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")  # nobody's install script runs


def lacks() -> str:
    """Name the programs that are needed and not installed; empty if all are."""
    return " and ".join(name for name in ("node", "npm") if shutil.which(name) is None)


def install(env: Path, cache: Path | None = None) -> None:
    """Install the packages into an environment; with `cache` without a network, from a folder that `store` filled."""
    offline = [] if cache is None else ["--offline", "--cache", str(cache)]
    with tempfile.TemporaryDirectory(dir=env.parent) as folder:
        _run_npm(folder, offline)
        shutil.copytree(Path(folder, "node_modules"), env / "lib" / "node_modules", symlinks=True)
    typescript.furnish(env)


def store(cache: Path) -> None:
    """Download the packages for `install` on another machine."""
    with tempfile.TemporaryDirectory() as folder:
        _run_npm(folder, ["--cache", str(cache)])


def _run_npm(folder: str, options: list[str]) -> None:
    # The user's npm, so that the registry, proxy and certificates are honoured.
    for name in ("package.json", LOCK.name):
        shutil.copy(_HERE / name, folder)
    call("npm", ["npm", "ci", *_OPTIONS, *options, "--prefix", folder])


def installed(env: Path) -> dict[str, str]:
    """Return the installed Node packages with their versions; empty without Node."""
    found = {}
    for path in sorted((env / "lib" / "node_modules").glob("**/package.json")):
        package = json.loads(path.read_text())
        if "name" in package and "version" in package:
            found[package["name"]] = package["version"]
    return found
