"""Explains why `cloche run FILE` refuses a file that is no program, and what to type instead."""

from __future__ import annotations

import os

from cloche.errors import InvalidRun

# How files begin, and what they are.
_BINARIES = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (or a document, a jar or a wheel)",
    b"\x1f\x8b": "compressed with gzip",
    b"\x7fELF": "a compiled program",
    b"SQLite format 3": "an SQLite database",
    b"\xca\xfe\xba\xbe": "a compiled Java class",
    b"PAR1": "a Parquet file",
    b"RIFF": "a sound, video or picture",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


def binary(name: str, source: bytes) -> InvalidRun:
    """Return the error for a file with binary contents."""
    kind = next((kind for start, kind in _BINARIES.items() if source.startswith(start)), "binary data")
    base = os.path.basename(name)
    if kind == "a compiled program":
        hint = f"Start it from a shell: cloche run --file {name}:{base} -l bash -c 'chmod +x {base}; ./{base}'"
    elif "UTF-16" in kind:
        hint = "Save it in UTF-8."
    else:
        hint = _as_data(name)
    what = "source code" if kind == "a compiled program" else "a program"
    return InvalidRun(f"{name} is not {what}: it is {kind}.", hint=hint)


def check_may_be_one(file: str, code: str, why: str) -> None:
    """Refuse a file whose name or contents say that it is no program; without such a sign it may be one in Python."""
    if not code.strip():
        raise InvalidRun(f"{file} is empty: there is nothing to run.", hint="Is it the right file?")
    reason = why.removeprefix("the file is called ")
    if reason != why:
        ending = reason.rpartition(".")[2] if "." in reason.strip(".") else ""
        what = f"files that end in .{ending} are" if ending else f"a file called {reason} is"
        raise InvalidRun(f"{file} is not a program that Cloche runs: {what} in none of its languages.", _as_data(file))
    if why.startswith("it looks like "):
        raise InvalidRun(f"{file} is not a program: {why}.", hint=_as_data(file))


def _as_data(name: str) -> str:
    base = os.path.basename(name)
    return (
        f"If it is data for a program, copy it in: cloche run --file {name}:data/{base} PROGRAM. If it is a program, "
        "name its language: cloche run -l NAME FILE."
    )
