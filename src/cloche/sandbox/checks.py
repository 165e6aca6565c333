"""Checks callers' arguments, once: the value that a check returns can be sent to an agent or a server as it is."""

from __future__ import annotations

from _collections_abc import Iterable, Mapping, Sequence
from posixpath import normpath

from cloche.errors import InvalidRun
from cloche.model.files import Mount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche.model.network import Network
    from cloche.model.packages import Requirement

Data = bytes | bytearray | memoryview
CHECKS = ("report", "block", "off")  # what to do with the types of a TypeScript program


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


def checked_network(network: Any) -> Network | None:
    """A network policy; None for a sandbox without a network."""
    if network is None or network == "none":
        return None
    from cloche.model.network import network_of  # seldom needed, and not by a cold `cloche run`

    return network_of(network)


def checked_packages(packages: Iterable[str] | None, language: str = "python") -> tuple[Requirement, ...]:
    """The packages that a caller asked for."""
    if packages is None:
        return ()
    from cloche.sandbox import package_checks  # seldom needed, and not by a cold `cloche run`

    return package_checks.checked_packages(packages, language)


def checked_command(command: str | Sequence[str]) -> list[str]:
    """A command as a list of arguments; a shell line becomes a call of the shell."""
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


def checked_data(name: str, data: Any) -> Data:
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


def checked_files(files: Mapping[str, str | bytes] | None) -> list[tuple[str, Data]]:
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


def checked_check(check: str) -> str:
    """What to do with the types of a TypeScript program."""
    if check not in CHECKS:
        from cloche.nearest import did_you_mean

        hint = did_you_mean(str(check), CHECKS, 'Say "report", "block" or "off".')
        raise InvalidRun(f"check={check!r:.100} is not known.", hint=hint)
    return check


def checked_port(port: int) -> int:
    """A TCP port."""
    if type(port) is not int or not 1 <= port <= 65535:
        raise InvalidRun(f"A port is a number from 1 to 65535, not {port!r:.100}.")
    return port


def checked_mode(mode: int | None) -> int | None:
    """The permissions of a file."""
    if mode is not None and (type(mode) is not int or not 0 <= mode <= 0o777):
        raise InvalidRun(f"mode must be between 0o000 and 0o777, not {mode!r:.100}.")
    return mode


def check_range(offset: int, length: int | None) -> None:
    """A part of a file, in bytes."""
    for name, value in (("offset", offset), ("length", 0 if length is None else length)):
        if type(value) is not int or not 0 <= value < 1 << 62:
            raise InvalidRun(f"{name} must be a whole number of bytes, not {value!r:.100}.")


def checked_depth(depth: int) -> int:
    """How many levels of folders to list."""
    if type(depth) is not int or depth < 1:
        raise InvalidRun("depth must be 1 or more.")
    return depth


def checked_size(size: tuple[Any, ...]) -> tuple[int, int]:
    """Columns and rows of a terminal."""
    possible = isinstance(size, tuple | list) and len(size) == 2
    if not possible or not all(type(number) is int and 1 <= number <= 10_000 for number in size):
        raise InvalidRun(f"A terminal cannot have the size {size!r:.100}.", "Say columns and rows: (80, 24).")
    return size[0], size[1]


def signal_number(signal: int | str) -> int:
    """A signal by its number, or by its name: SIGTERM, or TERM, as `kill` calls it."""
    from signal import Signals

    try:
        if isinstance(signal, str):
            return Signals["SIG" + signal.upper().removeprefix("SIG")]
        return Signals(signal)
    except (KeyError, ValueError):
        raise InvalidRun(
            f"There is no signal {signal!r:.100}.", hint="Name one like SIGTERM, or give its number."
        ) from None


def checked_mounts(mounts: Mapping[str, str] | Sequence[Mount]) -> tuple[Mount, ...]:
    """Mounts from `{"/host/dir": "/sandbox/data/in"}`: read-only, unless `:rw` is appended to the target."""
    if isinstance(mounts, Mapping):
        mounts = [
            Mount(source, target.removesuffix(":rw").removesuffix(":ro"), target.endswith(":rw"))
            for source, target in checked_env(mounts).items()
        ]
    for mount in mounts:
        if not isinstance(mount, Mount):
            raise InvalidRun(f"mounts is a mapping of folders to places in the sandbox, not {mounts!r:.100}.")
        target = normpath(mount.target)
        if not target.startswith("/sandbox/") or target != mount.target.rstrip("/"):
            raise InvalidRun(
                f"{mount.target} is no place to mount at.", hint="Choose a path below /sandbox, like /sandbox/data/in."
            )
    targets = [mount.target.rstrip("/") for mount in mounts]
    for target in targets:
        if targets.count(target) > 1 or any(target.startswith(f"{other}/") for other in targets):
            raise InvalidRun(f"{target} lies in another mount.", hint="Mount side by side, not one inside another.")
    return tuple(mounts)


def _is_text(text: str) -> bool:
    """Return whether a text can be encoded.  `surrogateescape` covers single bytes that are not UTF-8."""
    if text.isascii():  # which takes no time, however long the text is
        return True
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
