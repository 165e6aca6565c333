"""The system packages of this host, and the stand-in for apt in a build, which installs nothing.

Sandboxes see the host's /usr, so a package that the host has is there already.  All others are refused by name.
"""

from __future__ import annotations

import subprocess

_QUERY_S = 20.0
_FORMAT = "${db:Status-Status}\\t${Package}\\t${Provides}\\n"


def installed() -> tuple[str, ...]:
    """The names of the host's packages, and of those that they provide; empty on a host without dpkg."""
    try:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", _FORMAT], capture_output=True, text=True, timeout=_QUERY_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return names_in(done.stdout)


def names_in(listing: str) -> tuple[str, ...]:
    """The names in dpkg's listing, sorted."""
    found: set[str] = set()
    for line in listing.splitlines():
        status, name, provides = (*line.split("\t"), "", "")[:3]
        if status == "installed":
            found.add(name)
            found.update(each.split("(")[0].strip() for each in provides.split(","))
    return tuple(sorted(found - {""}))


def stand_in(folder: str) -> dict[str, str]:
    """Programs by name: the stand-in for apt, which reads the host's packages from the file `packages` in `folder`."""
    return dict.fromkeys(("apt", "apt-get"), _APT.replace("@FOLDER@", folder))


_APT = r"""#!/opt/env/bin/python3 -IS
import re, sys
given, words = sys.argv[1:], []
while given:
    word = given.pop(0)
    if word in ("-o", "-t", "-c", "--option", "--target-release", "--config-file"):
        del given[:1]
    elif not word.startswith("-"):
        words.append(word)
action, names = (words[0], words[1:]) if words else ("", [])
if action in ("update", "upgrade", "dist-upgrade", "full-upgrade", "clean", "autoclean", "autoremove"):
    print("apt: the packages are those of the server's host; nothing to do")
    sys.exit(0)
if action not in ("install", "satisfy", "reinstall"):
    sys.exit(f"E: apt {' '.join(sys.argv[1:])} is not available: the packages are those of the server's host.")
with open("@FOLDER@/packages", encoding="utf-8") as file:
    there = set(file.read().split())
missing = []
for word in names:
    name = re.split("[=/:]", word)[0].rstrip("+")
    if name in there:
        print(f"{name} is already installed on the server's host.")
    else:
        missing.append(name)
if missing:
    have = "these packages" if there else "packages of apt at all"
    print(
        f"E: {', '.join(missing)}: the server's host does not have {have}, and a sandbox cannot install them. "
        "Let the operator install them on the host, or use what pip or npm have instead.",
        file=sys.stderr,
    )
    sys.exit(100)
"""
