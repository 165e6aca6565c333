"""Makes the Node packages of a layer usable from a folder `node_modules`: a folder of links for each package.

Node follows a link to a file, and finds the package's dependencies beside it in the layer.  The folders themselves are
real ones: npm takes a link to a folder for a project under development, and would list what that lacks.  Links in
`.bin` lead to the programs of packages, as npm makes them.  Everything here may have been changed by programs, so
nothing is believed.
"""

from __future__ import annotations

import os
import stat

from cloche.wire.light_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MAX_LISTED = 5000
_MAX_MANIFEST = 1 << 20
_TOP = "node_modules/"


def link(layer: str, folder: str, packages: list[dict[str, Any]], only: list[str] | None) -> None:
    """Link a layer's packages, in place of other versions of the same packages; with `only`, just those."""
    places = sorted(
        (place, package["bins"])
        for package in packages
        for place in package["places"]
        if only is None or _top(place) in only
    )
    known = {place for place, _ in places}
    above = {place[:end] for place in known for end in range(len(place)) if place[end] == "/"}
    _make_folder(folder)
    for place, bins in places:
        target = f"{folder}/{place.removeprefix(_TOP)}"
        if place == _TOP + _top(place):
            _remove(folder, _top(place))
            if "/" in _top(place):
                _make_folder(os.path.dirname(target))
            _link_programs(folder, target, bins)
        os.makedirs(target, exist_ok=True)
        _fill(f"{layer}/{place}", target, place, known, above)


def _fill(source: str, target: str, place: str, known: set[str], above: set[str]) -> None:
    """Link the entries of a package's folder, except other packages in it."""
    with os.scandir(source) as entries:
        for entry in entries:
            inner = f"{place}/{entry.name}"
            if inner in above and inner not in known:
                os.makedirs(f"{target}/{entry.name}", exist_ok=True)
                _fill(entry.path, f"{target}/{entry.name}", inner, known, above)
            elif inner not in known:
                _replace(entry.path, f"{target}/{entry.name}")


def _link_programs(folder: str, target: str, bins: dict[str, str]) -> None:
    programs = _programs(folder)
    for program, path in bins.items():
        _make_folder(programs)
        _replace(os.path.relpath(f"{target}/{path}", programs), f"{programs}/{program}")


def _top(place: str) -> str:
    """The name of the package whose folder is, or is around, a place."""
    return place.removeprefix(_TOP).partition(f"/{_TOP}")[0]


def unlink(folder: str, names: list[str]) -> list[str]:
    """Remove packages; returns the names of those that were there."""
    removed = []
    for name in names:
        path = f"{folder}/{name}"
        if os.path.normpath(path) == path and os.path.lexists(path):
            _remove(folder, name)
            removed.append(name)
    return removed


def listed(folder: str) -> Iterator[tuple[str, str]]:
    """The names and versions of the packages in a folder."""
    for name in _names(folder):
        scoped = [f"{name}/{each}" for each in _names(f"{folder}/{name}")] if name.startswith("@") else [name]
        for each in scoped:
            version = _version(f"{folder}/{each}/package.json")
            if version:
                yield each, version


def _programs(folder: str) -> str:
    """Where npm links the programs of packages: for `npm install --global`, in a folder on the PATH."""
    return (
        f"{os.path.dirname(os.path.dirname(folder))}/bin" if folder.endswith("/lib/node_modules") else f"{folder}/.bin"
    )


def _remove(folder: str, name: str) -> None:
    """Remove a package, if it is there, with the links to its programs."""
    programs = _programs(folder)
    start = os.path.relpath(f"{folder}/{name}", programs) + "/"
    for program in _names(programs):
        path = f"{programs}/{program}"
        if os.path.islink(path) and os.readlink(path).startswith(start):
            os.unlink(path)
    _clear(f"{folder}/{name}")


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)[:_MAX_LISTED]
    except OSError:
        return []


def _version(path: str) -> str:
    from cloche.agent.paths import open_regular

    try:
        file = open_regular(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        if os.fstat(file).st_size > _MAX_MANIFEST:
            return ""
        value = loads(os.read(file, _MAX_MANIFEST).decode("utf-8", "replace").strip())["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    finally:
        os.close(file)
    return value if isinstance(value, str) else ""


def _make_folder(path: str) -> None:
    if os.path.islink(path):
        os.unlink(path)  # a whole scope of another layer, or a link to a place that is none of ours
    os.makedirs(path, exist_ok=True)


def _replace(source: str, target: str) -> None:
    _clear(target)
    os.symlink(source, target)


def _clear(path: str) -> None:
    """Remove whatever is there; a link is never followed."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        import shutil

        shutil.rmtree(path)
    else:
        os.unlink(path)
