"""Environments: named sets of packages and files from which sandboxes start."""

from __future__ import annotations

from collections.abc import Mapping

from cloche.errors import InvalidRun
from cloche.model.installs import InstalledPackage
from cloche.model.packages import Requirement
from cloche.model.plain import Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_NAME = 100
MAX_STEPS, MAX_IMPORTS, MAX_VARIABLES = 200, 50, 200
MAX_TEXT = 256 << 10  # characters of a command or a script
MAX_FILES, MAX_FILE_BYTES = 10_000, 256 << 20  # that one build copies in
USUAL_TAG = "latest"
_FIRST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_OTHERS = _FIRST | frozenset("._-")


class Step(Plain):
    """One step of making an environment: a command ("run"), a "script", files ("write"), "env" or a "folder"."""

    kind: str
    text: str = ""  # the command or the script, or the folder in which later commands run
    variables: Mapping[str, str] = {}
    # Path in the sandbox, content, mode; a command may need some, too.
    files: tuple[tuple[str, bytes | memoryview, int], ...] = ()
    title: str = ""  # what the log calls a command, if not by its text


class EnvironmentSpec(Plain):
    """What an environment shall have."""

    packages: tuple[Requirement, ...] = ()
    steps: tuple[Step, ...] = ()
    imports: tuple[str, ...] = ()  # modules that sandboxes have imported already when they start
    start: str = ""  # a command that each sandbox starts with
    ready: str = ""  # a command that succeeds once that one is ready
    base: str = ""  # the environment to begin with
    from_lock: bool = False  # take the versions of the earlier environment of that name
    labels: Mapping[str, str] = {}  # kept with the environment, for the door that it came through


class Environment(Plain):
    """An environment that has been built."""

    name: str
    created: float
    digest: str  # changes with everything that a sandbox would notice
    packages: tuple[InstalledPackage, ...] = ()
    layers: tuple[str, ...] = ()  # names of layers, by slot; the last one has the files
    size: int = 0  # bytes on disk
    imports: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    folder: str = ""  # where commands run; empty: at the usual place
    start: str = ""
    ready: str = ""
    lock: Mapping[str, Any] = {}  # the locks of its packages, as JSON, by layer
    shared: bool = False  # it belongs to the host, and everybody may use it
    labels: Mapping[str, str] = {}


class EnvironmentMount(Plain):
    """What a wall needs to start sandboxes from an environment."""

    digest: str
    layers: tuple[tuple[str, tuple[int, int]], ...]  # folders of the host with device and inode, by slot
    archive: str  # the path, inside, of the archive of files
    imports: tuple[str, ...] = ()


def checked_name(name: str) -> str:
    """The name of an environment in its one spelling: with a tag after `:`, unless that is `latest`."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise InvalidRun(f"{name!r:.120} cannot be the name of an environment.", hint=_HOW)
    for part in name.split(":", 1):
        if not part or part[0] not in _FIRST or not _OTHERS.issuperset(part):
            raise InvalidRun(f"{name!r} cannot be the name of an environment.", hint=_HOW)
    return name.removesuffix(f":{USUAL_TAG}")


def check_spec(spec: EnvironmentSpec) -> None:
    """Refuse a specification that no build could carry out, before one begins."""
    if len(spec.steps) > MAX_STEPS:
        raise InvalidRun(f"An environment is built in at most {MAX_STEPS} steps.", hint="Put commands into a script.")
    if len(spec.imports) > MAX_IMPORTS:
        raise InvalidRun(f"An environment can import at most {MAX_IMPORTS} modules.", hint="Name the slowest ones.")
    for name in spec.imports:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidRun(f"{name!r:.100} is not the name of a module.", hint="Write it as after `import`.")
    files = [file for step in spec.steps for file in step.files]
    if len(files) > MAX_FILES or sum(len(content) for _, content, _ in files) > MAX_FILE_BYTES:
        raise InvalidRun(
            f"An environment takes at most {MAX_FILES} files with {MAX_FILE_BYTES >> 20} MB in all.",
            hint="Fetch large data with a setup script, or mount a folder in each sandbox.",
        )
    for step in spec.steps:
        if step.kind not in STEP_KINDS:
            raise InvalidRun(f"{step.kind!r:.50} is no step of an environment.", hint=f"Use {', '.join(STEP_KINDS)}.")
        if len(step.text) > MAX_TEXT or "\0" in step.text:
            raise InvalidRun(f"A command or script has at most {MAX_TEXT >> 10} KB, and no zero bytes.")
        for path, _, _ in step.files:
            if not path or "\0" in path or len(path) > 4096:
                raise InvalidRun(f"{path!r:.100} cannot be the path of a file.")
        if len(step.variables) > MAX_VARIABLES:
            raise InvalidRun(f"An environment can set at most {MAX_VARIABLES} variables.")


STEP_KINDS = ("run", "script", "write", "env", "folder")
_HOW = "Use lower-case letters, digits and . _ -, a letter or digit first: report, or report:v2 with a tag."
