"""Reads one requirement of a Python package, as PEP 508 writes it: `httpx[http2]>=0.27,<1; python_version >= "3.11"`.

Addresses, paths and options of pip are refused with advice: a policy decides about names in an index, and could not
decide about those.
"""

from __future__ import annotations

import re

from cloche.errors import InvalidRun
from cloche.model.packages import PYTHON, Requirement, normal_name
from cloche.model.python_versions import exact_version, is_bound
from cloche.model.requirement_text import LOCAL_FILES, split_hashes

_IDENTIFIER = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_NAME = re.compile(_IDENTIFIER)
_EXTRAS = re.compile(rf"\s*\[\s*((?:{_IDENTIFIER}\s*(?:,\s*{_IDENTIFIER}\s*)*)?)\]\s*")
_FILE = re.compile(r"\.(whl|zip|tar\.\w+|tgz|egg)$", re.IGNORECASE)
_TOKEN = re.compile(r"""\s*(\(|\)|===|==|~=|!=|<=|>=|<|>|'[^']*'|"[^"]*"|[a-z_.]+)""")
_VARIABLES = re.compile(
    r"os_name|sys_platform|platform_(machine|python_implementation|release|system|version)|python_(full_)?version|"
    r"implementation_(name|version)|extra"
)
_OPERATORS = frozenset(["===", "==", "~=", "!=", "<=", ">=", "<", ">", "in"])
_DEEPEST = 20  # brackets in brackets of a marker
_HOW = "Write a name and, if you like, versions: polars, httpx>=0.27, pandas==2.2.3, uvicorn[standard]."
OPTIONS = {
    "-e": "Copy the project into the sandbox and run pip install ./FOLDER there.",
    "-r": "Send the requirements of that file with the others, or put both into one file.",
    "-c": "Write the bounds into the requirements themselves, as in numpy<3.",
    "-i": "The operator's own configuration of pip says which index is used.",
    "-f": "The operator's own configuration of pip says where packages come from.",
}
_LONG = {
    "--editable": "-e",
    "--requirement": "-r",
    "--constraint": "-c",
    "--index-url": "-i",
    "--extra-index-url": "-i",
    "--no-index": "-i",
    "--trusted-host": "-i",
    "--find-links": "-f",
}


def python_requirement(text: str) -> Requirement:
    """One requirement that a person wrote; InvalidRun says what is wrong with it."""
    _check_kind(text.strip())
    bare, hashes = split_hashes(text, PYTHON)
    found = _NAME.match(bare)
    if found is None:
        raise InvalidRun(f"{bare!r:.100} is not the name of a Python package.", hint=_HOW)
    rest, _, marker = bare[found.end() :].partition(";")
    extras = _EXTRAS.match(rest)
    names = sorted({normal_name(each.strip(), PYTHON) for each in extras[1].split(",")} - {""}) if extras else []
    bound = _bound(rest[extras.end() :] if extras else rest, bare)
    name = normal_name(found[0], PYTHON)
    canonical = name + (f"[{','.join(names)}]" if names else "") + bound
    if marker.strip() or bare.endswith(";"):
        canonical += f"; {_marker(marker, bare)}"
    return Requirement(PYTHON, name, canonical, exact_version(bound) is not None, hashes)


def refused_option(text: str) -> InvalidRun:
    """The error for an option of pip among requirements, with what to do instead."""
    option = re.split(r"[=\s]", text, maxsplit=1)[0]
    short = _LONG.get(option, option[:2])
    hint = OPTIONS.get(short, "Leave the option out; packages are named one by one.")
    return InvalidRun(f"The option {option!r:.100} cannot be used among packages.", hint=hint)


def _check_kind(text: str) -> None:
    """Refuse what names no package of an index."""
    shown = f"{text!r:.100}"
    if text.startswith("-"):
        raise refused_option(text)
    before, at, after = text.partition("@")
    if "://" in text.partition(";")[0] or (at and re.match(r"\s*(file|git|hg|svn|bzr)\b", after)):
        raise InvalidRun(
            f"{shown} is an address, and packages come from an index alone.",
            hint=f"Name the package and its version. {LOCAL_FILES}",
        )
    if text.startswith((".", "/", "~", "\\")) or _FILE.search(text.partition(";")[0].strip()):
        raise InvalidRun(f"{shown} is a path, and packages come from an index alone.", hint=LOCAL_FILES)
    if text.startswith(("npm:", "python:", "pypi:")):
        raise InvalidRun(f"{shown} is not a Python package.", hint='Write packages={"javascript": ["lodash"]}.')
    if at and _NAME.fullmatch(before.strip()) and is_bound(f"=={after.strip()}"):
        raise InvalidRun(f"{shown} is how npm writes a version.", hint=f"Write {before.strip()}=={after.strip()}.")


def _bound(text: str, whole: str) -> str:
    written = text.strip()
    if written.startswith("(") and written.endswith(")"):
        written = written[1:-1].strip()
    if not written:
        return ""
    single = re.fullmatch(r"=\s*([^=\s]+)", written)
    if single:
        raise InvalidRun(f"{whole!r:.100} has one equals sign.", hint=f"Write {_NAME.match(whole)[0]}=={single[1]}.")  # type: ignore[index]
    if not is_bound(written):
        several = re.fullmatch(rf"{_IDENTIFIER}(?:[\s,]+{_IDENTIFIER})+", whole)
        listed = ", ".join(f'"{each}"' for each in re.split(r"[\s,]+", whole)) if several else ""
        hint = f"Name each package by itself: packages=[{listed}]." if listed else _HOW
        raise InvalidRun(f"{whole!r:.100} does not say which versions in a way that PEP 508 knows.", hint=hint)
    return re.sub(r"\s+", "", written)


def _marker(text: str, whole: str) -> str:
    """The condition after a semicolon, in one spelling."""
    tokens, place = [], 0
    while place < len(text.rstrip()):
        found = _TOKEN.match(text, place)
        if found is None:
            raise _bad_marker(whole)
        tokens.append(found[1])
        place = found.end()
    rest = _either(tokens, whole, 0)
    if rest:
        raise _bad_marker(whole)
    return " ".join(tokens)


def _either(tokens: list[str], whole: str, depth: int) -> list[str]:
    """Read comparisons that `and` and `or` join; return the tokens that follow."""
    if depth > _DEEPEST:
        raise _bad_marker(whole)
    while True:
        if tokens[:1] == ["("]:
            rest = _either(tokens[1:], whole, depth + 1)
            if rest[:1] != [")"]:
                raise _bad_marker(whole)
            rest = rest[1:]
        else:
            rest = _comparison(tokens, whole)
        if rest[:1] not in (["and"], ["or"]):
            return rest
        tokens = rest[1:]


def _comparison(tokens: list[str], whole: str) -> list[str]:
    length = 4 if tokens[1:3] == ["not", "in"] else 3
    left, *operator, right = [*tokens[:length], "", ""][: max(length, 3)]
    is_operator = operator == ["not", "in"] or (len(operator) == 1 and operator[0] in _OPERATORS)
    if not is_operator or not _is_operand(left) or not _is_operand(right):
        raise _bad_marker(whole)
    return tokens[length:]


def _is_operand(token: str) -> bool:
    return _VARIABLES.fullmatch(token) is not None or token[:1] in ("'", '"')


def _bad_marker(whole: str) -> InvalidRun:
    return InvalidRun(
        f"The condition after the semicolon of {whole!r:.100} is not one that PEP 508 knows.",
        hint='Write for example: tomli; python_version < "3.11".',
    )
