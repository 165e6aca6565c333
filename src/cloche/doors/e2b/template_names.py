"""Names and tags of E2B's templates, and the names of the environments that stand behind them."""

from __future__ import annotations

from typing import Any

from cloche.doors.e2b.answers import Refusal
from cloche.errors import InvalidRun
from cloche.model.environments import checked_name

OURS = ("base", "code-interpreter-v1", "code-interpreter-beta", "code-interpreter")  # the server's own templates
USUAL_TAG = "default"
# E2B's own templates that no sandbox here can stand for.
UNAVAILABLE = {
    "mcp-gateway": "There is no MCP gateway in sandboxes of this server; it speaks MCP itself, at /mcp.",
    "devcontainer": "Sandboxes cannot run containers: copy the project's files, and install its packages.",
}
_MOST_TAGS = 50


def split(given: Any) -> tuple[str, str]:
    """Return the name and the tag of `name` or `name:tag`."""
    if not isinstance(given, str) or not given.strip():
        raise Refusal(400, "The name of the template is missing.")
    name, _, tag = given.strip().lower().partition(":")
    checked(name)
    return name, checked(tag) if tag else USUAL_TAG


def checked(part: Any) -> str:
    """Return a name or a tag that an environment can have."""
    if not isinstance(part, str) or ":" in part:
        raise Refusal(400, f"{part!r:.100} cannot be the name or the tag of a template.")
    try:
        checked_name(part)
    except InvalidRun as problem:
        raise Refusal(400, f"{problem.message} {problem.hint}") from None
    return part


def tags_of(body: dict[str, Any], tag: str) -> list[str]:
    """The tags of a build: the one in its name and those beside it, or else the usual one."""
    found = listed_tags(body.get("tags") or [])
    if tag != USUAL_TAG:
        found.insert(0, tag)
    return list(dict.fromkeys(found)) or [USUAL_TAG]


def listed_tags(given: Any) -> list[str]:
    """Return a list of tags from a body."""
    if not isinstance(given, list) or len(given) > _MOST_TAGS:
        raise Refusal(400, f"tags is a list of at most {_MOST_TAGS} texts.")
    return [checked(each.strip().lower() if isinstance(each, str) else each) for each in given]


def check_is_free(name: str) -> None:
    """Refuse a name that belongs to the server."""
    if name in OURS or is_reserved(name):
        raise Refusal(400, f"The name '{name}' belongs to a template of the server. Choose another name.")


def is_reserved(name: str) -> bool:
    """Whether a name stands for a template that this server cannot have."""
    return name in UNAVAILABLE


def joined(name: str, tag: str) -> str:
    """The name of the environment."""
    return name if tag == USUAL_TAG else f"{name}:{tag}"


def parted(environment: str) -> tuple[str, str]:
    """The name and the tag of the template that an environment stands behind."""
    name, _, tag = environment.partition(":")
    return name, tag or USUAL_TAG
