"""Lists the folders of the host that sandboxes see beside /usr: toolchains elsewhere, and prepared files.

Looking for all toolchains takes longer than starting a sandbox, so the result is saved together with the variables and
folder dates that it depends on.  It stays valid until one of these changes.
"""

from __future__ import annotations

import marshal
import os

from cloche import languages
from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILE = "host_folders"
_USUAL = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


def visible_folders() -> dict[str, Any]:
    """Return the folders to mount with their paths inside, and the additions to PATH."""
    saved = _read()
    if saved is not None and _is_valid(saved):
        return dict(saved["found"])
    found = _look()
    _write({"basis": _basis(found), "found": found})
    return found


def _look() -> dict[str, Any]:
    mounts: list[tuple[str, str]] = [preparation.mount()]
    path: list[str] = []
    for language in languages.everything():
        if language.toolchain is None or language.toolchain.inside:
            continue
        found = languages.tools(language)
        if found is None:
            continue
        if found.mount is not None and found.mount not in mounts:
            mounts.append(found.mount)
        if found.folder not in (*_USUAL, *path):
            path.append(found.folder)
    return {"toolchains": mounts, "path": path}


def _basis(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the result depends on: environment variables, and when folders were last changed."""
    from re import findall

    patterns = [
        pattern
        for language in languages.everything()
        if language.toolchain is not None
        for pattern in language.toolchain.folders
    ]
    variables = {"PATH", "HOME", *(name for pattern in patterns for name in findall(r"\$(\w+)", pattern))}
    folders = set(os.environ.get("PATH", os.defpath).split(":"))
    folders.add(languages.FOLDER)
    folders.update(source for source, _ in found["toolchains"][1:])
    for pattern in patterns:
        expanded = os.path.expandvars(os.path.expanduser(pattern))
        if "$" not in expanded:
            folders.add(expanded.partition("*")[0].rpartition("/")[0] if "*" in expanded else expanded)
    return {
        "prepared": preparation.location(),
        "variables": {name: os.environ.get(name) for name in sorted(variables)},
        "folders": {folder: _changed(folder) for folder in sorted(folders) if folder},
    }


def _is_valid(saved: dict[str, Any]) -> bool:
    basis = saved["basis"]
    return (
        basis["prepared"] == preparation.location()
        and all(os.environ.get(name) == value for name, value in basis["variables"].items())
        and all(_changed(folder) == when for folder, when in basis["folders"].items())
        and os.path.isdir(preparation.location())
    )


def _changed(folder: str) -> int | None:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None


def _read() -> dict[str, Any] | None:
    try:
        with open(os.path.join(preparation.location(), _FILE), "rb") as file:
            saved = marshal.load(file)
        return saved if isinstance(saved, dict) else None
    except (OSError, ValueError, EOFError, TypeError):
        return None


def _write(saved: dict[str, Any]) -> None:
    path = os.path.join(preparation.location(), _FILE)
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "wb") as file:
            marshal.dump(saved, file)
        os.replace(draft, path)
    except OSError:
        pass  # no permission: the next process looks for the toolchains again
