"""Makes the packages of a layer importable: links in the workspace lead to the layer, which is read-only.

Python finds its packages in the user's folder of site-packages, Node in `node_modules` (node_links.py).  The links are
files of the workspace: a checkpoint contains them, so restoring one from before undoes the install, and a saved
workspace keeps them.  A folder to which several packages contribute becomes a real folder with links in it.

Everything here may have been changed by programs, so nothing is opened that could block, and nothing is believed.
"""

from __future__ import annotations

import os
import site
import stat
import sys

from cloche.agent import layer_list, node_links
from cloche.agent.own_packages import module_of
from cloche.agent.paths import open_regular, resolve
from cloche.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.agent.main import Agent

METHODS = frozenset(("link_packages", "unlink_packages", "list_packages", "note_layer", "list_layers"))
_MAX_RECORD = 8 << 20
_MAX_LISTED = 5000
_INFO = ".dist-info"
# A file in folders that several packages share.  Without any file, pip takes a folder of links for one that it may
# remove as a whole when it uninstalls one of the packages.
_SHARED = ".shared"


def start(agent: Agent, operation: int, request: dict[str, Any]) -> None:
    """Carry out a CALL frame for a layer."""
    reply: dict[str, Any]
    if request["method"] == "list_packages":
        reply = {"packages": listed(agent.home)}
    elif request["method"] == "list_layers":
        reply = {"layers": layer_list.read(agent.home)}
    elif request["method"] == "note_layer":
        layer_list.note(agent.home, request["name"], request["number"])
        reply = {}
    elif request["method"] == "unlink_packages" and request["ecosystem"] == "javascript":
        reply = {"removed": node_links.unlink(resolve(agent, request["folder"]), request["names"])}
    elif request["method"] == "unlink_packages":
        reply = {"removed": unlink(request["names"])}
    elif request["ecosystem"] == "javascript":
        folder = resolve(agent, request["folder"])
        node_links.link(request["layer"], folder, request["packages"], request["only"])
        reply = {"loaded": []}
    else:
        link(request["layer"], request["packages"])
        reply = {"loaded": _loaded_by_kernels(agent, request["layer"], request["packages"])}
    agent.send(frames.encode_json(operation, frames.REPLY, reply))


def link(layer: str, packages: list[dict[str, Any]]) -> None:
    """Link a layer's Python packages, in place of other versions of the same packages."""
    own, source = site.getusersitepackages(), _packages_of(layer)
    base = os.path.dirname(os.path.dirname(os.path.dirname(own)))
    _make_folder(own)
    unlink([package["name"] for package in packages])
    counts: dict[str, int] = {}
    for package in packages:
        for name in package["top"]:
            counts[name] = counts.get(name, 0) + 1
    for package in packages:
        shared = False
        for name in package["top"]:
            if name.endswith(_INFO):
                continue
            shared |= _place(f"{source}/{name}", f"{own}/{name}", counts[name] > 1)
        info = next(name for name in package["top"] if name.endswith(_INFO))
        _make_folder(f"{own}/{info}")
        _link_children(f"{source}/{info}", f"{own}/{info}", leave_out=("RECORD", "INSTALLER"))
        _write(f"{own}/{info}/INSTALLER", "cloche\n")
        names = [name for name in package["top"] if not name.endswith(_INFO)]
        entries = _links_of(source, own, info) if shared else names
        for script in package["scripts"]:
            _make_folder(f"{base}/bin")
            _replace(f"{layer}/bin/{script}", f"{base}/bin/{script}")
            entries.append(f"../../../bin/{script}")
        inside = [f"{info}/{name}" for name in sorted(os.listdir(f"{own}/{info}"))]
        record = [*entries, *inside, f"{info}/RECORD"]
        _write(f"{own}/{info}/RECORD", _as_record(record))
    for name in os.listdir(layer):
        if name not in ("lib", "bin"):  # data files of packages: share/, etc/
            _make_folder(f"{base}/{name}")
            _link_children(f"{layer}/{name}", f"{base}/{name}")


def _loaded_by_kernels(agent: Agent, layer: str, packages: list[dict[str, Any]]) -> list[str]:
    """The packages of which a Python kernel has loaded another version, so that it needs a restart."""
    contexts = agent.contexts.by_name.values() if agent.contexts is not None else ()
    return sorted(
        {
            str(package["name"])
            for context in contexts
            for package in packages
            if any(context.has_loaded(module) for module in _modules(_packages_of(layer), package["top"]))
        }
    )


def _modules(source: str, top: list[str]) -> set[str]:
    """The modules of a package: at the top, or, where it contributes to a namespace, the first ones below."""
    found = set()
    for name in top:
        path = f"{source}/{name}"
        if os.path.isdir(path) and not os.path.exists(f"{path}/__init__.py") and "." not in name:
            info = next(entry for entry in top if entry.endswith(_INFO))
            files = set(_recorded(f"{source}/{info}/RECORD"))
            found |= {_module_in_namespace(file, files) for file in files if file.startswith(f"{name}/")}
        else:
            found.add(module_of(name))
    return found - {""}


def _module_in_namespace(file: str, files: set[str]) -> str:
    parts = file.split("/")
    for length in range(2, len(parts)):
        if f"{'/'.join(parts[:length])}/__init__.py" in files:
            return ".".join(parts[:length])
    parts[-1] = module_of(parts[-1])
    return ".".join(parts) if parts[-1] else ""


def unlink(names: list[str]) -> list[str]:
    """Remove packages from the user's folder, if they are there; returns those that were."""
    own = site.getusersitepackages()
    try:
        there = [entry for entry in os.listdir(own) if entry.endswith(_INFO)]
    except OSError:
        return []
    removed = []
    for entry in there:
        name = _normal(entry.removesuffix(_INFO).partition("-")[0])
        if name in names:
            _remove(own, entry)
            removed.append(name)
    return removed


def listed(home: str) -> list[tuple[str, str, str]]:
    """Language, name and version of the packages in the workspace."""
    found, own = [], site.getusersitepackages()
    for entry in _names(own):
        # A package whose layer is not there any more is not there, either.
        if entry.endswith(_INFO) and os.path.exists(f"{own}/{entry}/METADATA"):
            name, _, version = entry.removesuffix(_INFO).partition("-")
            found.append(("python", _normal(name), version))
    found += [("javascript", name, version) for name, version in node_links.listed(f"{home}/node_modules")]
    return found[:_MAX_LISTED]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)[:_MAX_LISTED]
    except OSError:
        return []


def _packages_of(layer: str) -> str:
    return f"{layer}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _normal(name: str) -> str:
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def _place(source: str, target: str, is_shared: bool) -> bool:
    """Link an entry; a folder that others contribute to becomes a real one.  Returns whether it did."""
    if is_shared and os.path.isdir(source):
        _make_folder(target)
        _write(f"{target}/{_SHARED}", "")
    if os.path.isdir(source) and os.path.isdir(target):
        _open_up(target)
        _link_children(source, target)
        return True
    _replace(source, target)
    return False


def _link_children(source: str, folder: str, leave_out: tuple[str, ...] = ()) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in leave_out:
                continue
            target = f"{folder}/{entry.name}"
            if entry.is_dir(follow_symlinks=False) and os.path.isdir(target):
                _open_up(target)
                _link_children(entry.path, target)
            else:
                _replace(entry.path, target)


def _open_up(folder: str) -> None:
    """Turn a link to a folder into a folder of links."""
    if os.path.islink(folder):
        source = os.readlink(folder)
        os.unlink(folder)
        os.mkdir(folder)
        if os.path.isdir(source):
            _link_children(source, folder)
        _record_children(folder)
        _write(f"{folder}/{_SHARED}", "")


def _record_children(folder: str) -> None:
    """Let the package that has this folder have the links in it instead: others will add theirs."""
    own = site.getusersitepackages()
    if not folder.startswith(f"{own}/"):
        return
    place = folder.removeprefix(f"{own}/")
    for entry in _names(own):
        record = f"{own}/{entry}/RECORD"
        if not entry.endswith(_INFO) or place not in (entries := _recorded(record)):
            continue
        entries.remove(place)
        entries += [f"{place}/{name}" for name in _names(folder)]
        _write(record, _as_record(entries))


def _replace(source: str, target: str) -> None:
    try:
        os.symlink(source, target)
    except FileExistsError:
        if stat.S_ISDIR(os.lstat(target).st_mode):
            import shutil

            shutil.rmtree(target)
        else:
            os.unlink(target)
        os.symlink(source, target)


def _make_folder(path: str) -> None:
    if os.path.islink(path) and not os.path.isdir(path):
        os.unlink(path)  # it led to a layer that is not here any more
    os.makedirs(path, exist_ok=True)


def _links_of(source: str, own: str, info: str) -> list[str]:
    """The links, or files, by which the files of a package are reached."""
    found: dict[str, None] = {}
    for path in _recorded(f"{source}/{info}/RECORD"):
        parts = path.split("/")
        if parts[0] == info or parts[0] == "..":
            continue
        for length in range(1, len(parts) + 1):
            place = "/".join(parts[:length])
            if os.path.islink(f"{own}/{place}"):
                found[place] = None
                break
    return list(found)


def _remove(own: str, info: str) -> None:
    """Remove the package with this folder of metadata: all that its RECORD names below the user's folder."""
    base = os.path.dirname(os.path.dirname(os.path.dirname(own)))
    folders = set()
    for entry in _recorded(f"{own}/{info}/RECORD"):
        path = os.path.normpath(os.path.join(own, entry))
        if not path.startswith(f"{base}/") or _leads_into_a_layer(os.path.dirname(path), base):
            continue
        try:
            os.unlink(path)
        except OSError:
            continue  # it has gone already, or is a folder
        folders.add(os.path.dirname(path))
    for folder in sorted(folders, key=len, reverse=True):
        while folder.startswith(f"{own}/"):
            try:
                if _names(folder) == [_SHARED]:
                    os.unlink(f"{folder}/{_SHARED}")
                os.rmdir(folder)
            except OSError:
                break  # others have files in it
            folder = os.path.dirname(folder)
    if os.path.isdir(f"{own}/{info}") and not os.path.islink(f"{own}/{info}"):
        import shutil

        shutil.rmtree(f"{own}/{info}", ignore_errors=True)


def _leads_into_a_layer(folder: str, base: str) -> bool:
    return not os.path.realpath(folder).startswith(os.path.realpath(base))


def _recorded(path: str) -> list[str]:
    """The paths in a RECORD."""
    return [_first_field(line) for line in _content(path).decode("utf-8", "replace").splitlines() if line]


def _content(path: str) -> bytes:
    """The content of a file; nothing if there is no such file of a bearable size."""
    try:
        file = open_regular(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        size = os.fstat(file).st_size
        return os.read(file, size) if size <= _MAX_RECORD else b""
    finally:
        os.close(file)


def _first_field(line: str) -> str:
    if line.startswith('"'):
        return line[1:].partition('",')[0].replace('""', '"')
    return line.partition(",")[0]


def _as_record(entries: list[str]) -> str:
    return "".join(f"{_quoted(entry)},,\n" for entry in dict.fromkeys(entries))


def _quoted(entry: str) -> str:
    return '"{}"'.format(entry.replace('"', '""')) if any(mark in entry for mark in ',"') else entry


def _write(path: str, text: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(path, flags, 0o644)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
