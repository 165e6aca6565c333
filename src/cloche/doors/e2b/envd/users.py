"""The users that E2B's clients may name, and what their paths mean.

There is one user behind the wall: `root` is a name and a home of its own, and no more rights (docs/e2b.md).
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from posixpath import normpath
from typing import NamedTuple

from cloche.doors.e2b.envd.connect import ConnectProblem

_HOMES = {"user": "/home/user", "root": "/root"}
_NAMES = {0: "root", 1000: "user"}


class User(NamedTuple):
    """Somebody in the sandbox."""

    name: str
    home: str

    def resolve(self, path: str) -> str:
        """An absolute path: relative ones start at this user's home."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~"):
            raise ConnectProblem("invalid_argument", "the home of another user cannot be named as ~user")
        path = path if path.startswith("/") else f"{self.home}/{path}"
        return normpath(path).replace("//", "/")

    def environment_with(self, given: Mapping[str, str]) -> dict[str, str]:
        """A sandbox's environment, with what says who this is unless that was chosen; the usual home was not."""
        chosen = {name: value for name, value in given.items() if (name, value) != ("HOME", _HOMES["user"])}
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, **chosen}


def named(name: str) -> User:
    """The user of this name."""
    if name not in _HOMES:
        raise ConnectProblem("unauthenticated", f"invalid username: '{name}'")
    return User(name, _HOMES[name])


def by_header(authorization: str, usual: str) -> User:
    """The user whom a request names, by basic authentication without a password."""
    kind, _, given = authorization.partition(" ")
    if kind.lower() != "basic":
        return named(usual)
    try:
        name = b64decode(given, validate=True).decode().partition(":")[0]
    except (Error, ValueError):
        raise ConnectProblem("unauthenticated", "the user cannot be read from the authorization") from None
    return named(name or usual)


def owner(uid: int) -> str:
    """The name of a file's owner."""
    return _NAMES.get(uid) or ("nobody" if uid == 65534 else str(uid))


def group(gid: int) -> str:
    """The name of a file's group."""
    return _NAMES.get(gid) or ("nogroup" if gid == 65534 else str(gid))
