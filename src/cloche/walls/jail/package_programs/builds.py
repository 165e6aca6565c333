"""`cargo`, `go` and `mvn` inside a sandbox without a network: Cloche provides what the project's manifests name.

The manifests go to Cloche, without the project's code.  It answers with a folder of packages, and with the lock file if
that was missing.  Then the real program runs, with settings that lead to this folder.  As `with-dependencies ECOSYSTEM
FOLDER PROGRAM …`, any other program runs so.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` would take longer to import than to use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

ADDRESS = "\0cloche-packages"  # see agent/package_requests.py
TOOLS = {"cargo": "cargo", "go": "go", "mvn": "maven"}
NOT_PROVIDED = 69  # the exit code that tells engine/building.py that no compiler is to blame
MOST_TEXT, MOST_FILES = 512 << 10, 200
CARGO_COMMANDS = {
    *("build", "b", "check", "c", "clippy", "run", "r", "test", "t", "bench", "doc", "d", "rustc", "fetch", "metadata"),
    *("tree", "vendor", "fix", "install", "add", "update", "generate-lockfile"),
}
GO_COMMANDS = {"build", "install", "run", "test", "vet", "list", "generate", "get", "mod", "doc", "fix", "tool"}
VALUES = {"-f", "--file", "--manifest-path", "-C", "--config", "--color", "-Z"}  # options with a value
IMPORTS = re.compile(r'^\s*import\b\s*(\([^)]*\)|[^"\n]*"[^"\n]*")', re.MULTILINE)
SETTINGS = """<settings><localRepository>{own}</localRepository><mirrors><mirror><id>cloche</id><mirrorOf>*</mirrorOf>\
<url>file://{layer}/repository</url></mirror></mirrors></settings>
"""


class Question:
    """What Cloche is asked: the manifests of a project."""

    def __init__(self, ecosystem: str, folder: str) -> None:
        self.ecosystem, self.folder = ecosystem, folder
        self.paths: dict[str, str] = {}  # texts of manifests by their absolute paths
        self.command: list[str] = []
        self.imports: list[str] = []

    def add(self, path: str) -> str:
        """Add a manifest, if it is there; return its text."""
        path = os.path.normpath(path)
        if path not in self.paths and len(self.paths) < MOST_FILES:
            try:
                with open(path, encoding="utf-8", newline="") as file:
                    self.paths[path] = file.read(MOST_TEXT)
            except (OSError, ValueError):
                return ""
        return self.paths.get(path, "")


def main() -> int:
    """Ask for the dependencies if the project has any, and become the real program."""
    name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
    if name in TOOLS:
        program = real_program(name)
        if program is None:
            return fail(f"{name}: command not found", 127)
        question = about(TOOLS[name], os.getcwd(), words) if is_without_network() else None
    else:
        ecosystem, folder, program, *words = words
        needs_tool = next(tool for tool, each in TOOLS.items() if each == ecosystem)
        is_asked = is_without_network() and real_program(needs_tool) is not None
        question = about(ecosystem, folder, None) if is_asked else None
    layer, code = "", 1 if name in TOOLS else NOT_PROVIDED
    if question is not None:
        base = os.path.commonpath([question.folder, *map(os.path.dirname, question.paths)])
        answer = ask(question, base)
        if answer is not None:
            if answer.get("exit"):
                message, _, hint = str(answer.get("err", "")).removeprefix("ERROR: ").strip().partition("\n")
                return fail(f"error: {message}\nhelp: {hint}" if hint else f"error: {message}", code)
            sys.stderr.write(str(answer.get("err", "")))
            write_back(base, answer["files"])
            if question.command:
                sys.stderr.write(str(answer.get("output", "")))
                return 0
            layer = str(answer.get("layer") or "")
    run(program, words, question.ecosystem if question is not None else "", layer)


def run(program: str, words: list[str], ecosystem: str, layer: str) -> NoReturn:
    """Become a program that finds the packages of a layer."""
    number = os.path.basename(layer)
    if layer and ecosystem == "cargo":
        os.environ.update(CARGO_HOME=f"/tmp/.cache/cargo-{number}", CARGO_NET_OFFLINE="true")
        text = f'[source.crates-io]\nreplace-with = "cloche"\n[source.cloche]\ndirectory = "{layer}/vendor"\n'
        write(os.environ["CARGO_HOME"] + "/config.toml", text)
    elif layer and ecosystem == "go":
        proxy = f"file://{layer}/mod/cache/download"
        os.environ.update(GOMODCACHE=f"{layer}/mod", GOPROXY=proxy, GOSUMDB="off", GONOSUMDB="", GOFLAGS=go_flags())
    elif layer and ecosystem == "maven":
        os.environ["PROVIDED_CLASSPATH"] = f"{layer}/classpath"  # for the builder of Java programs
        if os.path.basename(program) == "mvn":
            settings = f"/tmp/.cache/maven-{number}/settings.xml"
            write(settings, SETTINGS.format(own="/tmp/.cache/maven", layer=layer))
            words = ["-s", settings, *words]
    os.execv(program, [program, *words])


def go_flags() -> str:
    """The caller's flags for Go; without a repository of its own, a program cannot be stamped with a version."""
    flags = os.environ.get("GOFLAGS", "")
    return flags if "-buildvcs" in flags else f"{flags} -buildvcs=false".strip()


def about(ecosystem: str, folder: str, words: list[str] | None) -> Question | None:
    """The question for a command in a folder; none if the command or the project needs nothing from Cloche."""
    if words is not None:
        folder = os.path.normpath(os.path.join(folder, named_folder(words)))
    question = Question(ecosystem, folder)
    command = list(plain_words(words or []))
    needs = {"cargo": about_cargo, "go": about_go, "maven": about_maven}[ecosystem]
    return question if needs(question, command, words) and question.paths else None


def named_folder(words: list[str]) -> str:
    """The folder that an option names: `--manifest-path`, `-C`, `-f`."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in ("--manifest-path", "-C", "-f", "--file"):
            value = value if equals else "".join(words[index + 1 : index + 2])
            return os.path.dirname(value) if value.endswith((".toml", ".xml")) else value
    return ""


def plain_words(words: list[str]) -> Iterator[str]:
    """The words of a command that are no options."""
    rest = iter(words)
    for word in rest:
        if word in VALUES:
            next(rest, None)
        elif not word.startswith(("-", "+")):
            yield word


def nearest(folder: str, name: str) -> str:
    """The nearest folder upwards that has a file; empty if there is none."""
    while not os.path.isfile(f"{folder}/{name}"):
        if folder == "/":
            return ""
        folder = os.path.dirname(folder)
    return folder


def about_cargo(question: Question, command: list[str], words: list[str] | None) -> bool:
    """Collect the manifests of a package, its workspace, and the packages that it names by path."""
    import tomllib

    if words is not None and (not command or command[0] not in CARGO_COMMANDS):
        return False
    question.folder = nearest(question.folder, "Cargo.toml")
    if not question.folder or "replace-with" in text_of(f"{question.folder}/.cargo/config.toml"):
        return False
    waiting, seen, is_foreign = [question.folder], set(), False
    place = question.folder
    while place != "/":  # a workspace may be above
        place = os.path.dirname(place)
        if "[workspace" in text_of(f"{place}/Cargo.toml"):
            waiting.append(place)
    while waiting:
        place = os.path.normpath(waiting.pop())
        if place in seen:
            continue
        seen.add(place)
        try:
            manifest = tomllib.loads(question.add(f"{place}/Cargo.toml"))
        except tomllib.TOMLDecodeError:
            return False  # Cargo says it better
        question.add(f"{place}/Cargo.lock")
        workspace = manifest.get("workspace", {})
        for pattern in (*workspace.get("members", ()), *workspace.get("exclude", ())):
            waiting += filter(os.path.isdir, glob.glob(f"{place}/{pattern}"))
        patched = [{"dependencies": each} for each in manifest.get("patch", {}).values()]
        for each in (manifest, workspace, *patched, *manifest.get("target", {}).values()):
            for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
                for given in each.get(kind, {}).values():
                    path = given.get("path") if isinstance(given, dict) else None
                    if path is not None:
                        waiting.append(os.path.join(place, path))
                    else:
                        is_foreign = True
    if command[:1] in (["add"], ["update"], ["generate-lockfile"]) and words is not None:
        question.command = absolute_paths(words[words.index(command[0]) :])
        return command[0] != "add" or "--path" not in " ".join(words)
    return is_foreign


def absolute_paths(words: list[str]) -> list[str]:
    """A command without the option that names its folder."""
    found, rest = [], iter(words)
    for word in rest:
        if word == "--manifest-path":
            next(rest, None)
        elif not word.startswith("--manifest-path="):
            found.append(word)
    return found


def about_go(question: Question, command: list[str], words: list[str] | None) -> bool:
    """Collect the manifests of a module, of its workspace, and of the modules that it replaces by folders."""
    if words is not None and (not command or command[0] not in GO_COMMANDS):
        return False
    question.folder = nearest(question.folder, "go.mod")
    if not question.folder or os.path.exists(f"{question.folder}/vendor/modules.txt"):
        return False
    waiting, seen, needs = [question.folder], set(), False
    above = nearest(question.folder, "go.work")
    if above:
        question.add(f"{above}/go.work.sum")
        text = question.add(f"{above}/go.work")
        waiting += [os.path.join(above, word) for word in text.split() if word.startswith(".")]
    while waiting:
        place = os.path.normpath(waiting.pop())
        if place in seen:
            continue
        seen.add(place)
        text = question.add(f"{place}/go.mod")
        question.add(f"{place}/go.sum")
        needs |= re.search(r"^\s*require\b", text, re.MULTILINE) is not None
        waiting += [os.path.join(place, path) for path in re.findall(r"=>\s*(\.{1,2}/\S*)", text)]
    if words is not None and command[0] == "get":
        question.command = words[words.index("get") :]
        return True
    if words is not None and command[:2] == ["mod", "tidy"]:
        question.command, question.imports = ["mod", "tidy"], sorted(imports_below(question.folder))
        return True
    return needs and command[:2] not in (["mod", "edit"], ["mod", "init"])


def imports_below(folder: str) -> set[str]:
    """The packages that the code of a module imports, as far as their names have a host."""
    own = re.search(r"^\s*module\s+(\S+)", text_of(f"{folder}/go.mod"), re.MULTILINE)
    found: set[str] = set()
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("vendor", "testdata") and name[0] not in "._"]
        for name in names:
            if name.endswith(".go"):
                listed = " ".join(IMPORTS.findall(text_of(f"{place}/{name}")))
                found.update(each for each in re.findall(r'"([\w./~+-]+)"', listed) if "." in each.partition("/")[0])
    prefix = own[1].strip('"') if own is not None else "\n"
    return {each for each in found if each != prefix and not each.startswith(f"{prefix}/")}


def about_maven(question: Question, command: list[str], words: list[str] | None) -> bool:
    """Collect the models of a project, of its parents in the workspace, and of its modules."""
    if words is not None and not command:
        return False
    if not os.path.isfile(f"{question.folder}/pom.xml"):
        return False
    waiting, seen, needs = [question.folder], set(), words is not None
    while waiting:
        place = os.path.normpath(waiting.pop())
        if place in seen:
            continue
        seen.add(place)
        text = question.add(f"{place}/pom.xml")
        needs |= "<dependency>" in text or "<parent>" in text
        waiting += [os.path.join(place, path.strip()) for path in re.findall(r"<module>([^<]+)</module>", text)]
        above = re.search(r"<relativePath>([^<]*)</relativePath>", text)
        if "<parent>" in text and (above is None or above[1].strip()):
            parent = os.path.join(place, above[1].strip() if above is not None else "../pom.xml")
            parent = os.path.dirname(parent) if parent.endswith(".xml") else parent
            if os.path.isfile(f"{parent}/pom.xml"):
                waiting.append(parent)
    return needs


def is_without_network() -> bool:
    """Say whether the sandbox has no network at all; with one, the real program uses it as its policy allows."""
    return ".invalid" in os.environ.get("npm_config_registry", "")  # noqa: SIM112  (npm reads it in this form)


def real_program(name: str) -> str | None:
    """The program of this name that comes after this one on the PATH."""
    own = os.path.dirname(os.path.abspath(sys.argv[0]))
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        path = f"{folder}/{name}"
        if folder and os.path.abspath(folder) not in (own, "/opt/bin") and os.access(path, os.X_OK):
            return path
    return None


def text_of(path: str) -> str:
    """The text of a file; empty if there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MOST_TEXT)
    except OSError:
        return ""


def ask(question: Question, base: str) -> dict[str, Any] | None:
    """Send the manifests to Cloche, and wait for the answer; none if there is nobody to answer."""
    request = {
        "ecosystem": question.ecosystem,
        "files": {os.path.relpath(path, base): text for path, text in question.paths.items()},
        "folder": os.path.relpath(question.folder, base).strip("."),
        "command": question.command,
        "imports": question.imports,
    }
    connection, data = socket(AF_UNIX, SOCK_STREAM), b""
    try:
        connection.connect(ADDRESS)
        connection.sendall(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        while piece := connection.recv(1 << 16):
            data += piece
    except OSError:
        return None
    finally:
        connection.close()
    answer: dict[str, Any] | None = json.loads(data) if data else None
    return answer


def write_back(base: str, files: dict[str, str]) -> None:
    """Write the lock files and manifests that the resolver has made or changed."""
    for path, text in files.items():
        write(os.path.join(base, path), text)


def write(path: str, text: str) -> None:
    """Write a file, in whole."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(draft, path)


def fail(message: str, code: int) -> int:
    """Print an error; returns the exit code."""
    print(message, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
