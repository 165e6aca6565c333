"""Asks a package index about names; a program of the standard library, which a search runs in a sandbox.

Standard input is JSON: {"ecosystem", "index", "names", "text", "authorization": {host: header}, "seconds"}.  Beside
this file is python_versions.py.  Standard output is one line of JSON: {"found": {name: [version, summary]}, "missing":
[name], "failed": sentence}; only the answers that arrived in time are in it.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from email.parser import BytesHeaderParser
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.model.python_versions import version_key
else:
    from python_versions import version_key  # it is beside this file in the sandbox

_AT_ONCE = 16
_MAX_PAGE, _MAX_METADATA, _MAX_SUMMARY = 24 << 20, 64 << 10, 300  # bytes, bytes, characters
_SIMPLE = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_LINK = re.compile(rb"<a\s([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def main() -> None:
    """Ask about all names, and print what is known when the time is up."""
    order = json.load(sys.stdin)
    until = monotonic() + order["seconds"]
    found: dict[str, list[str]] = {}
    missing: list[str] = []
    failed: list[str] = []
    about: Callable[[dict[str, Any], str], Any] = _about_python if order["ecosystem"] == "python" else _about_npm
    todo: SimpleQueue[str] = SimpleQueue()
    done: SimpleQueue[tuple[str, Any, str | None]] = SimpleQueue()
    for name in order["names"]:
        todo.put(name)

    def work() -> None:
        while True:
            try:
                name = todo.get_nowait()
            except Empty:
                return
            try:
                done.put((name, about(order, name), None))
            except urllib.error.HTTPError as problem:
                done.put((name, None, None if problem.code in (404, 410) else str(problem)))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
                done.put((name, None, str(getattr(problem, "reason", None) or problem) or type(problem).__name__))

    for _ in range(min(_AT_ONCE, len(order["names"]))):
        threading.Thread(target=work, daemon=True).start()
    for _ in order["names"]:
        try:
            name, answer, problem = done.get(timeout=max(0.001, until - monotonic()))
        except Empty:
            failed.append("it answers slowly")
            break
        if answer is not None:
            found.update(answer if isinstance(answer, dict) else {name: answer})
        elif problem is None:
            missing.append(name)
        else:
            failed.append(problem)
    print(json.dumps({"found": found, "missing": missing, "failed": failed[0][:300] if failed else ""}), flush=True)
    os._exit(0)  # answers that are still on their way do not matter


def _read(order: dict[str, Any], url: str, most: int, accept: str = "*/*") -> tuple[bytes, str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    header = order["authorization"].get(request.host)
    if header:
        request.add_unredirected_header("Authorization", header)
    with urllib.request.urlopen(request, timeout=order["seconds"]) as answer:
        data = answer.read(most + 1)
        if len(data) > most:
            raise ValueError(f"{url} is larger than {most >> 20} MB")
        return data, answer.headers.get("Content-Type", ""), answer.url


def _about_python(order: dict[str, Any], name: str) -> list[str] | None:
    """The newest version and the summary: by the index's JSON if it has that, else by PEP 691 or 503 and PEP 658."""
    index = order["index"].rstrip("/")
    if index.endswith("/simple"):
        try:
            data, _, _ = _read(order, f"{index.removesuffix('/simple')}/pypi/{name}/json", _MAX_PAGE)
            info = json.loads(data)["info"]
            return [str(info["version"]), _short(info.get("summary"))]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # few indexes have it
    data, kind, base = _read(order, f"{index}/{name}/", _MAX_PAGE, _SIMPLE)
    files = json.loads(data)["files"] if "json" in kind else list(_links(data))
    best: tuple[tuple[Any, ...], str, str] | None = None
    for file in files:
        url, is_yanked = file["url"], file.get("yanked")
        version = _version_of(name, url)
        key = None if is_yanked or version is None else version_key(version)
        if version is None or key is None:
            continue
        has_metadata = file.get("core-metadata") or file.get("data-dist-info-metadata")
        rank = (not re.search(r"[a-z]", version.partition("+")[0].replace("post", "")), key, bool(has_metadata))
        if best is None or rank > best[0]:
            best = rank, version, url
    if best is None:
        return None
    rank, version, url = best
    if not rank[2]:
        return [version, ""]
    try:
        metadata, _, _ = _read(order, urllib.parse.urljoin(base, url).partition("#")[0] + ".metadata", _MAX_METADATA)
        summary = BytesHeaderParser().parsebytes(metadata).get("Summary") or ""
    except (OSError, ValueError):
        summary = ""  # it is a nicety
    return [version, _short(str(summary))]


def _links(page: bytes) -> Iterator[dict[str, Any]]:
    for link in _LINK.finditer(page):
        pairs = _ATTRIBUTE.findall(link[1].decode("utf-8", "replace"))
        found = {key.lower(): html.unescape(one or other) for key, one, other in pairs}
        if "href" in found:
            metadata = found.get("data-core-metadata") or found.get("data-dist-info-metadata")
            yield {"url": found["href"], "yanked": "data-yanked" in found, "core-metadata": metadata}


def _version_of(name: str, url: str) -> str | None:
    """The version in the name of a package's file."""
    file = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
    if file.endswith(".whl"):
        parts = file.split("-")
        return parts[1] if len(parts) in (5, 6) else None
    found = re.fullmatch(r"(.+)\.(?:tar\.gz|zip|tar\.bz2)", file)
    # The names of old source packages have hyphens, and so have the versions of some.
    if found is None or re.sub(r"[-_.]+", "-", found[1][: len(name) + 1]).lower() != f"{name}-":
        return None
    return found[1][len(name) + 1 :]


def _about_npm(order: dict[str, Any], name: str) -> list[str] | dict[str, list[str]]:
    """The newest version and the description; for the name "" what the registry's own search finds."""
    index = order["index"].rstrip("/")
    if not name:
        query = urllib.parse.urlencode({"text": order["text"], "size": 25})
        data, _, _ = _read(order, f"{index}/-/v1/search?{query}", _MAX_PAGE)
        packages = [each["package"] for each in json.loads(data)["objects"]]
        return {str(each["name"]): [str(each["version"]), _short(each.get("description"))] for each in packages}
    data, _, _ = _read(order, f"{index}/{name.replace('/', '%2f')}/latest", _MAX_PAGE)
    manifest = json.loads(data)
    return [str(manifest["version"]), _short(manifest.get("description"))]


def _short(text: object) -> str:
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return words if len(words) <= _MAX_SUMMARY else f"{words[:_MAX_SUMMARY]}…"


if __name__ == "__main__":
    main()
