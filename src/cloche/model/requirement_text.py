"""What the texts of requirements have in common: their length, their letters, and the hashes that may follow."""

from __future__ import annotations

import re

from cloche.errors import InvalidRun
from cloche.model.packages import MAX_TEXT

_MAX_HASHES = 200  # a release of NumPy has about 80 files
_HASH = {
    "python": re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}"),
    "javascript": re.compile(r"sha512-[A-Za-z0-9+/]{86}==|sha384-[A-Za-z0-9+/]{64}|sha256-[A-Za-z0-9+/]{43}="),
}
_SHAPE = {"python": "--hash=sha256: and 64 hexadecimal digits", "javascript": "--hash= and npm's integrity, sha512-…"}
_OPTION = re.compile(r"\s--hash[=\s]\s*(\S+)")
LOCAL_FILES = "Copy the file into the sandbox and install it there: pip install ./NAME.whl."


def split_hashes(text: str, ecosystem: str) -> tuple[str, tuple[str, ...]]:
    """Separate a requirement from its `--hash=` options; both are checked for length and letters."""
    if len(text) > MAX_TEXT + _MAX_HASHES * 150:
        raise too_long(text)
    hashes = tuple(dict.fromkeys(_OPTION.findall(text)))
    bare = _OPTION.sub("", text).strip()
    if len(bare) > MAX_TEXT:
        raise too_long(text)
    if len(hashes) > _MAX_HASHES:
        raise InvalidRun(f"{bare!r:.100} has {len(hashes)} hashes, and can have at most {_MAX_HASHES}.")
    for each in hashes:
        if not _HASH[ecosystem].fullmatch(each):
            raise InvalidRun(f"{each!r:.100} is not a hash of a file.", hint=f"Write {_SHAPE[ecosystem]}.")
    if not bare:
        raise InvalidRun("The name of a package is empty.", hint='Write packages=["polars"].')
    for letter in bare:
        if not " " <= letter <= "~":
            raise InvalidRun(
                f"The package {bare!r:.100} contains {_named(letter)}.",
                hint="Names and versions have plain ASCII letters, digits and punctuation; type the name again.",
            )
    return bare, hashes


def too_long(text: str) -> InvalidRun:
    """The error for a requirement that is longer than any real one."""
    return InvalidRun(f"The package {text[:40]!r}… is longer than {MAX_TEXT} characters.")


def _named(letter: str) -> str:
    """A letter as a person can tell it from another that looks the same."""
    from unicodedata import name

    return f"the character {letter!r} ({name(letter, f'U+{ord(letter):04X}')})"
