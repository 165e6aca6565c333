"""Reads `package.json` and `tsconfig.json`: the entry of a project, and how it is checked."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LONGEST = 256 << 10  # characters; longer manifests are ignored
# A string that is not closed is taken as well, since looking for its end from every quote would take minutes.
_COMMENT = re.compile(r"(\"(?:[^\"\\\n]|\\.)*+\"?)|/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)
_LAST_COMMA = re.compile(r"(\"(?:[^\"\\\n]|\\.)*+\"?)|,(?=\s*[}\]])")
_BUILT = re.compile(r"^(?:dist|build|lib|out)/")
_RUNNERS = re.compile(r"^(?:npx )?(?:node|ts-node|tsx|tsm|bun|deno run|nodemon)(?: -\S+)* +([^\s-]\S*)")


def read(text: str) -> dict[str, Any]:
    """Parse JSON with comments and trailing commas; empty if it cannot be parsed."""
    from json import loads

    if len(text) > _LONGEST:
        return {}
    plain = _LAST_COMMA.sub(r"\1", _COMMENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff")))
    try:
        found = loads(plain)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def manifest_entries(manifest: str, text: str) -> list[str]:
    """List the files that may be the project's entry, the likeliest first; some may not exist."""
    if manifest != "package.json":
        return []
    package = read(text)
    scripts = package.get("scripts")
    start = scripts.get("start") if isinstance(scripts, dict) else None
    named = [package.get("main"), package.get("module")]
    if isinstance(start, str) and (run := _RUNNERS.match(start)):
        named.insert(0, run[1])
    return [file for name in named if isinstance(name, str) for file in _files(name)]


def _files(name: str) -> Iterator[str]:
    """List the names that a file in a manifest may stand for: itself, with an extension, or before compilation."""
    name = name.removeprefix("./")
    for path in (name, _BUILT.sub("src/", name), _BUILT.sub("", name)):
        stem = re.sub(r"\.[cm]?js$", "", path)
        yield from (path, f"{stem}.js", f"{stem}.ts", f"{stem}.mts", f"{stem}.tsx")
        yield from (f"{path.rstrip('/')}/index.js", f"{path.rstrip('/')}/index.ts")
