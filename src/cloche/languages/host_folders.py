"""What sandboxes see of this host beside its /usr: toolchains that lie elsewhere, and what was prepared.

Looking for all of them takes longer than a sandbox does to start, so what was found is written down, together with what
it was found by; it holds until one of these changes.
"""

from __future__ import annotations

import marshal
import os

from cloche import languages
from cloche.languages import preparation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILE = "visible"
_USUAL = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


def visible_folders() -> dict[str, Any]:
    """Folders and where they go, and what PATH has in addition."""
    known = _read()
    if known is not None and _holds(known):
        return dict(known["found"])
    found = _look()
    _write({"signs": _signs(found), "found": found})
    return found


def _look() -> dict[str, Any]:
    mounts: list[tuple[str, str]] = [preparation.shown()]
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


def _signs(found: dict[str, Any]) -> dict[str, Any]:
    """What would be another if something else were to be found: variables, and when folders were last changed."""
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


def _holds(known: dict[str, Any]) -> bool:
    signs = known["signs"]
    return (
        signs["prepared"] == preparation.location()
        and all(os.environ.get(name) == value for name, value in signs["variables"].items())
        and all(_changed(folder) == when for folder, when in signs["folders"].items())
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
            known = marshal.load(file)
        return known if isinstance(known, dict) else None
    except (OSError, ValueError, EOFError, TypeError):
        return None


def _write(known: dict[str, Any]) -> None:
    path = os.path.join(preparation.location(), _FILE)
    draft = f"{path}.{os.getpid()}"
    try:
        with open(draft, "wb") as file:
            marshal.dump(known, file)
        os.replace(draft, path)
    except OSError:
        pass  # not ours to write: it is looked for again next time
