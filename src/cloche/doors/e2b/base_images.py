"""The images that a template of E2B can begin with: known names for what sandboxes of this server have anyway.

No image is ever fetched.  A name is accepted if a sandbox here can stand for it, and the build's log says what it is;
all others are refused by name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cloche.errors import InvalidRun

_REGISTRY = re.compile(r"(?:docker\.io/)?(?:library/)?")
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_OURS = frozenset(("e2bdev/base", "e2bdev/code-interpreter"))
_DISTRIBUTIONS = frozenset(("debian", "ubuntu"))
_INTERPRETERS = {"python": "Python", "node": "Node.js"}
_ANY_VERSION = frozenset(("", "latest", "lts", "current", "slim"))
_FOREIGN_VARIANTS = ("alpine", "windowsservercore", "nanoserver")


class HostFacts(NamedTuple):
    """What sandboxes of this server have."""

    system: str = "Linux"  # "Debian GNU/Linux 12 (bookworm)"
    python: str = ""  # versions; empty if sandboxes do not have it
    node: str = ""

    @property
    def summary(self) -> str:
        """What a sandbox is, in a few words."""
        parts = (self.system, self.python and f"Python {self.python}", self.node and f"Node.js {self.node}")
        return ", ".join(filter(None, parts))


def note_on(image: str, facts: HostFacts) -> str:
    """Return a line that says what an image is here; raises InvalidRun for an image that nothing here stands for."""
    whole = _REGISTRY.sub("", image.strip(), count=1)
    name, _, tag = whole.partition(":")
    if "@" in whole:
        raise _refused(image, "images are not fetched, so none can be chosen by its digest", facts)
    if name in _OURS:
        return f"{image}: sandboxes of this server take its place ({facts.summary})"
    if name in _DISTRIBUTIONS:
        return f"{image}: sandboxes of this server take its place; their system is {facts.system}, read-only"
    if name in _INTERPRETERS:
        return _interpreter(image, name, tag, facts)
    raise _refused(image, "images are not fetched", facts)


def _interpreter(image: str, name: str, tag: str, facts: HostFacts) -> str:
    """Accept an interpreter's image if its version is the one here."""
    here, title = getattr(facts, name), _INTERPRETERS[name]
    if not here:
        raise _refused(image, f"sandboxes of this server have no {title}", facts)
    wanted, _, variant = tag.partition("-")
    if wanted.startswith(_FOREIGN_VARIANTS) or variant.startswith(_FOREIGN_VARIANTS):
        raise _refused(image, f"its system is another one than {facts.system}", facts)
    if _VERSION.fullmatch(wanted):
        parts = here.split(".")[: wanted.count(".") + 1]
        if wanted.split(".")[:2] != parts[:2]:
            major_minor = ".".join(here.split(".")[:2] if name == "python" else here.split(".")[:1])
            raise _refused(image, f"the {title} of this server is {here}, so write {name}:{major_minor}", facts)
        if wanted != ".".join(parts):
            return f"Warning: {image}: sandboxes of this server have {title} {here}"
    elif wanted not in _ANY_VERSION and not _is_codename(wanted):
        raise _refused(image, f"the tag {wanted!r} is not known here; the {title} of this server is {here}", facts)
    return f"{image}: sandboxes of this server take its place, with {title} {here} ({facts.system})"


def _is_codename(tag: str) -> bool:
    """Whether a tag only names a release of Debian, which no sandbox can choose."""
    return tag in ("trixie", "bookworm", "bullseye", "buster")


def _refused(image: str, why: str, facts: HostFacts) -> InvalidRun:
    return InvalidRun(
        f"The image {image!r:.200} is not available: {why}.",
        hint=f"Begin with from_base_image(): sandboxes of this server have {facts.summary}. Then install what else "
        "you need, with pip_install, npm_install or copy.",
    )
