"""The users that E2B's clients may name, and their home folders.

A sandbox has one real user: `root` has another name and another home, but no more rights (docs/e2b.md).
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from posixpath import normpath
from typing import NamedTuple

from cloche.doors.e2b.envd.connect import ConnectProblem

_LONGEST_PATH = 4096
_HOMES = {"user": "/home/user", "root": "/root"}
_NAMES = {0: "root", 1000: "user"}


class User(NamedTuple):
    name: str
    home: str

    def resolve(self, path: str) -> str:
        """Make a path absolute; a relative path starts at this user's home."""
        if len(path) > _LONGEST_PATH:
            raise ConnectProblem("invalid_argument", f"a path has at most {_LONGEST_PATH} characters")
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~"):
            raise ConnectProblem("invalid_argument", "the home of another user cannot be named as ~user")
        path = path if path.startswith("/") else f"{self.home}/{path}"
        return normpath(path).replace("//", "/")

    def environment_with(self, env: Mapping[str, str]) -> dict[str, str]:
        """Add this user's variables to an environment, unless it sets them; the default HOME does not count as set."""
        chosen = {name: value for name, value in env.items() if (name, value) != ("HOME", _HOMES["user"])}
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, **chosen}


def named(name: str) -> User:
    """Find a user by name."""
    if name not in _HOMES:
        raise ConnectProblem("unauthenticated", f"invalid username: '{name}'")
    return User(name, _HOMES[name])


def by_header(authorization: str, default: str) -> User:
    """Return the user that a request names, in basic authentication without a password."""
    kind, _, credentials = authorization.partition(" ")
    if kind.lower() != "basic":
        return named(default)
    try:
        name = b64decode(credentials, validate=True).decode().partition(":")[0]
    except (Error, ValueError):
        raise ConnectProblem("unauthenticated", "the user cannot be read from the authorization") from None
    return named(name or default)


def owner(uid: int) -> str:
    return _NAMES.get(uid) or ("nobody" if uid == 65534 else str(uid))


def group(gid: int) -> str:
    return _NAMES.get(gid) or ("nogroup" if gid == 65534 else str(gid))
