"""Recognises names that are nearly the name of a popular package: `reqeusts`, `python-dateutils`, `1odash`.

Somebody who publishes harmful code often counts on a slip of the finger, and a model may make up a name.  The lists in
`popular/` are in the order of popularity, roughly, and were written for Cloche.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cloche.model.packages import JAVASCRIPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = Path(__file__).with_name("popular")
_SHORTEST = 4  # letters of a popular name: shorter ones are near to everything
_LONGEST = 100  # letters of a name that is compared
# Letters and digits that a person takes for each other.
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "3": "e", "5": "s", "-": "", "_": "", ".": ""})


def meant_name(ecosystem: str, name: str) -> str | None:
    """The popular name that another name nearly is, or None; a popular name is never taken for another."""
    popular, shortened, skeletons = _index(ecosystem)
    name = name.lower()
    if name in popular or not _SHORTEST - 1 <= len(name) <= _LONGEST:
        return None
    found = [each for each in (skeletons.get(_skeleton(name)),) if each is not None]
    for candidate in (name, *_shortened(name)):
        if candidate in popular and len(candidate) >= _SHORTEST:
            found.append(candidate)
        found += [each for each in shortened.get(candidate, ()) if _is_near(name, each)]
    return min(found, key=popular.__getitem__, default=None)


def popular_names(ecosystem: str) -> tuple[str, ...]:
    """The popular names, roughly in the order of popularity."""
    return tuple(_index(ecosystem)[0])


@cache
def _index(ecosystem: str) -> tuple[dict[str, int], dict[str, tuple[str, ...]], dict[str, str]]:
    """Ranks by name; names by what is left of them without one letter; names by how they look."""
    file = _FOLDER / ("npm.txt" if ecosystem == JAVASCRIPT else "python.txt")
    names = [line for line in file.read_text(encoding="ascii").splitlines() if line]
    shortened: dict[str, list[str]] = {}
    skeletons: dict[str, str] = {}
    for name in names:
        if len(name) >= _SHORTEST:
            skeletons.setdefault(_skeleton(name), name)
            for candidate in {name, *_shortened(name)}:
                shortened.setdefault(candidate, []).append(name)
    return {name: rank for rank, name in enumerate(names)}, {k: tuple(v) for k, v in shortened.items()}, skeletons


def _shortened(name: str) -> Iterator[str]:
    """A name without one of its letters, for each of them."""
    return (name[:place] + name[place + 1 :] for place in range(len(name)))


def _is_near(name: str, other: str) -> bool:
    """Whether one letter more, less or different, or two neighbours in the wrong order, make one name of the other."""
    start = 0
    while start < min(len(name), len(other)) and name[start] == other[start]:
        start += 1
    mine, theirs = name[start:], other[start:]
    swapped = theirs[1:2] + theirs[:1] + theirs[2:]
    return mine[1:] == theirs[1:] or mine[1:] == theirs or mine == theirs[1:] or mine == swapped


def _skeleton(name: str) -> str:
    """A name as it looks at first sight."""
    return name.replace("rn", "m").replace("vv", "w").translate(_ALIKE)
