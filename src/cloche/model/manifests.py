"""The manifests of a project with dependencies: what Cargo, Go and Maven read to know which packages it needs."""

from __future__ import annotations

from re import compile

from cloche.errors import InvalidRun
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CARGO, GO, MAVEN = "cargo", "go", "maven"
MANIFESTS = {
    CARGO: ("Cargo.toml", "Cargo.lock"),
    GO: ("go.mod", "go.sum", "go.work", "go.work.sum"),
    MAVEN: ("pom.xml",),
}
# The commands that change manifests, and therefore run where the registry can be reached.
COMMANDS = {CARGO: ("add", "update", "generate-lockfile"), GO: ("get", "mod tidy"), MAVEN: ()}
_MOST_FILES, _MOST_TEXT, _MOST_WORDS = 200, 512 << 10, 200
# The options that choose packages.  Others could name programs to run, and files that are not here.
_OPTIONS = {
    CARGO: compile(
        r"--(?:features|dev|build|optional|no-optional|default-features|no-default-features|rename|target|package|quiet"
        r"|precise|recursive|aggressive|workspace|dry-run|color)(?:=[^/]*)?|-[Fpqw]"
    ),
    GO: compile(r"-(?:u|t|d|v|x|e|u=patch|u=true|t=true|go=[\d.]+|compat=[\d.]+)"),
    MAVEN: compile(r"(?!)"),
}
_FOLDER = compile(r"(?:[^/\0\n]{1,200}/)*")
_IMPORT = compile(r"[\w./~+-]{1,300}")


class Manifests(Plain):
    """The manifests and lock files of a project, without its code."""

    ecosystem: str  # "cargo", "go" or "maven"
    files: Mapping[str, str]  # texts by path; all paths are relative to one folder
    folder: str = ""  # of the manifest that counts, relative to the same folder
    command: tuple[str, ...] = ()  # of the tool, if it is to change the manifests: `add itoa`
    imports: tuple[str, ...] = ()  # packages that the code imports, for `go mod tidy`


def manifests_of(request: Mapping[str, Any]) -> Manifests:
    """Read a request from inside a sandbox, of which nothing is believed."""
    ecosystem, files = request.get("ecosystem"), request.get("files")
    if ecosystem not in MANIFESTS or not isinstance(files, dict) or not 0 < len(files) <= _MOST_FILES:
        raise InvalidRun(f"A project has between 1 and {_MOST_FILES} manifests.")
    for path, text in files.items():
        _check_folder(path.rpartition("/")[0] + "/" if "/" in path else "")
        if path.rpartition("/")[2] not in MANIFESTS[ecosystem] or not isinstance(text, str):
            raise InvalidRun(f"{path!r:.200} is no manifest.")
    if sum(map(len, files.values())) > _MOST_TEXT:
        raise InvalidRun(f"The manifests of the project have more than {_MOST_TEXT >> 10} KiB.")
    folder = request.get("folder", "")
    _check_folder(f"{folder}/" if folder else "")
    command, imports = _words(request.get("command", [])), _words(request.get("imports", []), 2000)
    if command and not any(command[: len(name.split())] == tuple(name.split()) for name in COMMANDS[ecosystem]):
        raise InvalidRun(f"{' '.join(command)!r:.100} is not a command that changes manifests.")
    odd = next((each for each in command if each[:1] == "-" and not _OPTIONS[ecosystem].fullmatch(each)), None)
    if odd is not None:
        raise InvalidRun(
            f"The option {odd!r:.100} is not available without a network.", hint="Leave it out, or allow the network."
        )
    if not all(_IMPORT.fullmatch(each) for each in imports):
        raise InvalidRun("An import of the project has an odd name.")
    return Manifests(ecosystem, dict(files), folder, command, imports)


def _check_folder(folder: object) -> None:
    if not isinstance(folder, str) or not _FOLDER.fullmatch(folder) or {"..", "."} & set(folder.split("/")):
        raise InvalidRun(f"{folder!r:.200} is not a folder of a project.")


def _words(given: object, most: int = _MOST_WORDS) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > most or not all(isinstance(each, str) for each in given):
        raise InvalidRun("The arguments of a command are a list of texts.")
    if any(len(each) > 1000 or "\0" in each for each in given):
        raise InvalidRun("An argument of the command is too long.")
    return tuple(given)
