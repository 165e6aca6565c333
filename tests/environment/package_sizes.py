"""Measures what the packages of the environment take on the disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def python_sizes(env: Path, site_packages: Path, wanted: Collection[str]) -> dict[str, float]:
    """The MB of each wanted package, with the packages that nobody needs without it."""
    installed = {str(canonicalize_name(each.name)): each for each in distributions(path=[str(site_packages)])}
    needs = {name: _requirements(package) & installed.keys() for name, package in installed.items()}
    sizes = {name: _distribution_bytes(package, env, site_packages) for name, package in installed.items()}
    return _with_own_needs(sizes, needs, wanted)


def node_sizes(node_modules: Path, wanted: Collection[str]) -> dict[str, float]:
    """The same for Node; the declarations of a package, which lie in @types, count with it."""
    folders = [path.parent for path in (*node_modules.glob("*/package.json"), *node_modules.glob("@*/*/package.json"))]
    sizes = {str(folder.relative_to(node_modules)): _folder_bytes(folder) for folder in folders}
    needs = {}
    for name in sizes:
        described = json.loads((node_modules / name / "package.json").read_text())
        needs[name] = {*described.get("dependencies", {}), f"@types/{name}"} & sizes.keys()
    return _with_own_needs(sizes, needs, wanted)


def _with_own_needs(
    sizes: Mapping[str, int], needs: Mapping[str, Collection[str]], wanted: Collection[str]
) -> dict[str, float]:
    reached = {name: _reached(name, needs) for name in wanted}
    found = {}
    for name in wanted:
        elsewhere = {each for other in wanted if name not in reached[other] for each in reached[other]}
        own = reached[name] - elsewhere - (set(wanted) - {name})
        found[name] = sum(sizes[each] for each in own) / 1e6
    return found


def _reached(name: str, needs: Mapping[str, Collection[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += needs[each]
    return found


def _requirements(package: Distribution) -> set[str]:
    needed = [Requirement(text) for text in package.requires or ()]
    return {canonicalize_name(each.name) for each in needed if not each.marker or each.marker.evaluate({"extra": ""})}


def _distribution_bytes(package: Distribution, env: Path, site_packages: Path) -> int:
    # pip installs bin/ and share/ among the packages, and the builder then moves them beside lib/.
    files = [str(file).removeprefix("../../") for file in package.files or ()]
    places = [(site_packages / file, env / file) for file in files]
    return sum(path.stat().st_size for pair in places for path in pair if path.is_file())


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
