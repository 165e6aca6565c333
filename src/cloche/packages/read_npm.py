"""Prints what npm has chosen; a program of the standard library alone, which the broker runs in a sandbox after npm.

    python3 -I -S read_npm.py package-lock.json CACHE

Standard output is one line of JSON: {"packages": [{"place", "name", "version", "integrity", "url", "licence",
"scripts", "uploaded"}]}, without the packages for other systems.  npm's lock says nothing of the time of a release, so
this is read from the answers of the registry in npm's cache.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from base64 import b64decode
from typing import Any
from urllib.parse import unquote

_CPUS = {"x86_64": "x64", "aarch64": "arm64"}


def main() -> None:
    """Print the packages of the lock on the command line."""
    lock, cache = sys.argv[1:3]
    with open(lock, encoding="utf-8") as file:
        entries = json.load(file)["packages"]
    chosen = {place: each for place, each in entries.items() if place and is_wanted(each)}
    names = {each.get("name") or place.rpartition("node_modules/")[2] for place, each in chosen.items()}
    known = answers(f"{cache}/_cacache", names)
    found = [described(place, each, known) for place, each in sorted(chosen.items())]
    print(json.dumps({"packages": found}))


def is_wanted(entry: dict[str, Any]) -> bool:
    """Whether a package is for this system, and not a part of another one's file."""
    libc = "glibc" if platform.libc_ver()[0] == "glibc" else "musl"
    cpu = _CPUS.get(platform.machine(), platform.machine())
    fits = _fits(entry.get("os"), "linux") and _fits(entry.get("cpu"), cpu) and _fits(entry.get("libc"), libc)
    # A package that is needed must be installed even if its author has tried it only elsewhere.
    return not entry.get("inBundle") and (fits or not entry.get("optional"))


def _fits(allowed: Any, own: str) -> bool:
    words = [allowed] if isinstance(allowed, str) else allowed or []
    denied = [word[1:] for word in words if word.startswith("!")]
    positive = [word for word in words if not word.startswith("!")]
    return own not in denied and (not positive or own in positive or "any" in positive)


def described(place: str, entry: dict[str, Any], known: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """An entry of the lock in our words."""
    name, version = entry.get("name") or place.rpartition("node_modules/")[2], entry.get("version")
    answer = known.get(name, {})
    release = (answer.get("versions") or {}).get(version) or {}
    file = release.get("dist") or {}
    licence = entry.get("license") or release.get("license")
    return {
        "place": place,
        "name": name,
        "version": version,
        "integrity": entry.get("integrity") or file.get("integrity") or _of_shasum(file.get("shasum")),
        "url": file.get("tarball") or entry.get("resolved"),
        "licence": licence if isinstance(licence, str) else (licence or {}).get("type", ""),
        "scripts": bool(entry.get("hasInstallScript")),
        "link": bool(entry.get("link")),
        "uploaded": (answer.get("time") or {}).get(version),
    }


def _of_shasum(digest: Any) -> str:
    """npm's form of the old hash, the only one of packages from before 2017."""
    from base64 import b64encode

    return f"sha1-{b64encode(bytes.fromhex(digest)).decode()}" if isinstance(digest, str) else ""


def answers(folder: str, names: set[str]) -> dict[str, dict[str, Any]]:
    """The registry's answers about these packages, from npm's cache."""
    found = {}
    for path, _, files in os.walk(f"{folder}/index-v5"):
        for file in files:
            with open(f"{path}/{file}", encoding="utf-8") as lines:
                line = lines.read().strip().rpartition("\n")[2].partition("\t")[2]
            try:
                entry = json.loads(line)
                key, (kind, _, digest) = unquote(entry["key"]), entry["integrity"].partition("-")
                if any(key.endswith(f"/{name}") for name in names):
                    value = b64decode(digest).hex()
                    with open(f"{folder}/content-v2/{kind}/{value[:2]}/{value[2:4]}/{value[4:]}", "rb") as content:
                        answer = json.load(content)
                    if answer.get("name") in names:
                        found[answer["name"]] = answer
            except (ValueError, KeyError, TypeError, OSError):
                continue  # an entry of another kind
    return found


if __name__ == "__main__":
    main()
