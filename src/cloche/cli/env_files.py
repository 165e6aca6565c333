"""Reads the files that the options of `cloche env create` name, on the caller's side."""

from __future__ import annotations

import os
import stat

from cloche.errors import InvalidRun
from cloche.model.environments import MAX_FILE_BYTES, MAX_FILES, EnvironmentSpec
from cloche.packages.environment_spec import spec_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def spec(arguments: argparse.Namespace) -> EnvironmentSpec:
    """The environment that the options describe."""
    from cloche.model.packages import requirements_file

    requirements = [each for path in arguments.requirements for each in requirements_file(_text(path))]
    variables = [text.partition("=") for text in arguments.variables]
    for name, equals, _ in variables:
        if not name or not equals:
            raise InvalidRun(f"--set {name!r} is not of the form K=V.")
    files: dict[str, tuple[bytes, int]] = {}
    for text in arguments.file:
        _add(files, text)
    return spec_of(
        packages=arguments.packages,
        npm=arguments.npm,
        requirements=requirements,
        files=files,
        setup=_text(arguments.setup) if arguments.setup else "",
        imports=[name.strip() for text in arguments.imports for name in text.split(",") if name.strip()],
        env={name: value for name, _, value in variables},
        base=arguments.base,
        from_lock=arguments.from_lock,
    )


def _add(files: dict[str, tuple[bytes, int]], text: str) -> None:
    """Read a file, or all files of a folder; links inside a folder are left out, since they may lead anywhere."""
    source, _, target = text.partition(":")
    target = target or os.path.basename(os.path.normpath(source))
    if target in ("", ".", ".."):
        raise InvalidRun(f"--file {text!r} does not say where the files go.", hint="Write SRC:DEST.")
    if not os.path.isdir(source):
        _read(files, source, target)
        return
    for place, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(place, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                _read(files, path, os.path.normpath(os.path.join(target, os.path.relpath(path, source))))


def _read(files: dict[str, tuple[bytes, int]], path: str, target: str) -> None:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            left = MAX_FILE_BYTES - sum(len(content) for content, _ in files.values())
            content = file.read(left + 1)
    except OSError as problem:
        raise InvalidRun(f"{path} cannot be read: {problem.strerror}.") from problem
    if len(content) > left or len(files) >= MAX_FILES:
        raise InvalidRun(
            f"An environment takes at most {MAX_FILES} files with {MAX_FILE_BYTES >> 20} MB in all.",
            hint="Fetch large data with a setup script and --network, or mount a folder in each sandbox.",
        )
    files[target] = content, stat.S_IMODE(mode)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as problem:
        raise InvalidRun(f"{path} cannot be read: {problem.strerror}.") from problem
    except UnicodeDecodeError:
        raise InvalidRun(f"{path} is not a text in UTF-8.") from None
