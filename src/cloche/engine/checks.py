"""What a caller gives, checked once: what comes out of here can be sent to an agent as it is."""

from __future__ import annotations

from _collections_abc import Mapping, Sequence

from cloche.errors import InvalidRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def checked_env(env: Mapping[str, str] | None) -> dict[str, str]:
    """Environment variables that can be set."""
    if env is not None and not isinstance(env, Mapping):
        raise InvalidRun(f"env is a mapping of names to values, not {env!r:.100}.")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRun(f"Environment variables are texts, and {name!r:.100} is not.")
        if not name or "=" in name or "\0" in name + value or not _is_text(name + value):
            raise InvalidRun(f"{name!r:.100} cannot be an environment variable.")
    return dict(env or {})


def checked_args(args: Sequence[str]) -> list[str]:
    """A program's arguments."""
    if isinstance(args, str | bytes | Mapping) or not isinstance(args, Sequence):
        raise InvalidRun(f"args is a list of texts, not {args!r:.100}.")
    for text in args:
        if not isinstance(text, str) or "\0" in text or not _is_text(text):
            raise InvalidRun(f"args is a list of texts without NUL characters, and {text!r:.100} is none.")
    return list(args)


def checked_command(command: str | Sequence[str]) -> list[str]:
    """A command as the list of words that it is, or that the shell makes of it."""
    if isinstance(command, str):
        if "\0" in command or not _is_text(command):
            raise InvalidRun("A command cannot contain a NUL character.")
        return ["/bin/sh", "-c", command]
    try:
        argv = checked_args(command)
    except InvalidRun:
        argv = []
    if not argv or not argv[0]:
        raise InvalidRun("A command is a shell line, or a list of texts with the program first.")
    return argv


def checked_cwd(cwd: str | None) -> str | None:
    """A working directory."""
    return None if cwd is None else checked_path(cwd)


def checked_path(path: str) -> str:
    """A path inside the sandbox."""
    if not isinstance(path, str) or not path:
        raise InvalidRun(f"A path is a text, not {path!r:.100}.")
    if "\0" in path or not _is_text(path):
        raise InvalidRun("A path cannot contain a NUL character.")
    if len(path) > 4096:
        raise InvalidRun("A path has at most 4096 characters.")
    return path


def checked_data(name: str, data: Any) -> bytes | bytearray | memoryview:
    """Contents of a file, or input of a program, as bytes; a text is encoded as UTF-8."""
    if isinstance(data, str):
        try:
            return data.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise InvalidRun(f"{name} contains half a surrogate pair, which cannot be encoded.") from None
    if isinstance(data, memoryview):
        return data.cast("B") if data.c_contiguous else data.tobytes()
    if not isinstance(data, bytes | bytearray):
        raise InvalidRun(f"{name} is a text or bytes, not {data!r:.100}.")
    return data


def checked_files(files: Mapping[str, str | bytes] | None) -> list[tuple[str, bytes | bytearray | memoryview]]:
    """Files to be written, by their paths."""
    if files is not None and not isinstance(files, Mapping):
        raise InvalidRun(f"files is a mapping of paths to contents, not {files!r:.100}.")
    return [(checked_path(path), checked_data(path, data)) for path, data in (files or {}).items()]


def checked_code(code: str) -> str:
    """The source of a program."""
    if not isinstance(code, str):
        raise InvalidRun(f"code is a text, not {code!r:.100}.")
    checked_data("code", code)
    return code


def _is_text(text: str) -> bool:
    """Can it be encoded?  Single bytes that are not UTF-8 can, as Python's `surrogateescape` has them."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
