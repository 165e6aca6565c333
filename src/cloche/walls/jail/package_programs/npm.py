"""`npm install`, `npm ci` and `npx` inside a sandbox: the packages come from Cloche.  All else is for the real npm."""

from __future__ import annotations

import json
import os
import re
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket  # `socket` would take longer to import than to use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

ADDRESS = "\0cloche-packages"  # see agent/package_requests.py
OWN = "/opt/bin"
GLOBAL = "/sandbox/.local"  # npm's prefix, see package_tools.py
REGISTRY = "npm_config_registry"
TEMPORARY = "/tmp/.cache/npm/_npx"
INSTALL = ("install", "i", "in", "ins", "inst", "insta", "instal", "isnt", "isnta", "isntal", "isntall", "add")
CI = ("ci", "clean-install", "ic", "install-clean", "isntall-clean")
EXEC = ("exec", "x")
ABOUT_NPM = ("config", "c", "get", "set", "help", "-v", "--version", "-h", "--help")
FLAGS = {
    *("-s", "-q", "-d", "--silent", "--quiet", "--verbose", "-y", "--yes", "-f", "--force", "--legacy-peer-deps"),
    *("--no-audit", "--audit", "--no-fund", "--fund", "--no-progress", "--progress", "--prefer-offline", "--no-color"),
    *("--prefer-online", "--ignore-scripts", "--no-update-notifier", "--strict-peer-deps", "--no-strict-peer-deps"),
    *("--package-lock", "--save-bundle", "-B", "--audit=false", "--fund=false"),
}
VALUES = {"--loglevel", "--fetch-retries", "--fetch-timeout", "--maxsockets", "--cache"}
SAVE = {
    **dict.fromkeys(("-S", "--save", "-P", "--save-prod"), "dependencies"),
    **dict.fromkeys(("-D", "--save-dev"), "devDependencies"),
    **dict.fromkeys(("-O", "--save-optional"), "optionalDependencies"),
    "--save-peer": "peerDependencies",
}
KEPT = (
    *("dependencies", "optionalDependencies", "peerDependencies", "peerDependenciesMeta"),
    *("bin", "engines", "license", "os", "cpu", "libc"),
)
KINDS = ("dependencies", "devDependencies", "optionalDependencies")
NAME = re.compile(r"(@[\w.~-]+/)?[A-Za-z0-9][\w.~-]*")
CAREFUL = re.compile(r"\d+(\.[xX*]){0,2}|\^.*|>=?[\d.]+|[xX*]")  # ranges in which ^ and the version lie


class Options:
    """What a command line asks for."""

    def __init__(self, words: list[str]) -> None:
        self.is_known, self.is_global, self.is_saved, self.is_exact = True, False, True, False
        self.kind, self.prefix, self.without_dev = "", "", os.environ.get("NODE_ENV") == "production"
        self.is_silent, self.has_lock = False, True
        self.names: list[str] = []
        rest = list(words)
        while rest:
            self._take(rest.pop(0), rest)

    def _take(self, word: str, rest: list[str]) -> None:
        option, equals, value = word.partition("=")
        if option in ("--omit", "--include", "--prefix", "-C", "--location", *VALUES):
            value = value if equals else rest.pop(0) if rest else ""
            self.without_dev = self.without_dev or (option == "--omit" and value == "dev")
            self.is_global = self.is_global or (option == "--location" and value == "global")
            if option in ("--prefix", "-C"):
                self.prefix = os.path.abspath(value)
        elif word in ("-g", "--global"):
            self.is_global = True
        elif word in ("--production", "--only=production", "--only=prod"):
            self.without_dev = True
        elif word in SAVE:
            self.kind = SAVE[word]
        elif word in ("--no-package-lock", "--package-lock=false"):
            self.has_lock = False
        elif word == "--no-save":
            self.is_saved = False
        elif word in ("-E", "--save-exact"):
            self.is_exact = True
        elif word in FLAGS:
            self.is_silent = self.is_silent or word in ("-s", "--silent", "-q", "--quiet")
        elif word.startswith("-") or is_a_place(word):
            self.is_known = False
        else:
            self.names.append(word)


def main() -> int:
    """Do what the arguments say, if Cloche can; otherwise become the real program."""
    tool, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]
    command = next((word for word in arguments if not word.startswith("-")), "")
    before, after = split(arguments, command)
    if not reaches_a_registry():
        if tool == "npx":
            run_program(arguments)
        elif command in EXEC and not before:
            run_program(after)
        elif command in INSTALL or command in CI:
            options = Options(before + after)
            if options.is_known:
                done = install(options, command in CI)
                if done is not None:
                    return done
    become_real(tool, arguments)


def split(arguments: list[str], command: str) -> tuple[list[str], list[str]]:
    """Return the words before the command, and those after it."""
    place = arguments.index(command) if command else len(arguments)
    return arguments[:place], arguments[place + 1 :]


def reaches_a_registry() -> bool:
    """Say whether the network policy, or the caller, names a registry that exists."""
    return ".invalid" not in os.environ.get(REGISTRY, "")


def become_real(tool: str, arguments: list[str]) -> NoReturn:
    """Run the host's own program.

    npm takes the nearest folder above with a package.json or node_modules for the project.  At the top that would be
    the folder of the environment's packages, which cannot be written: then the project is the current folder.
    """
    whole = {"-g", "--global", "--location=global"}
    is_about_a_project = arguments and arguments[0] not in ABOUT_NPM and whole.isdisjoint(arguments)
    is_named = any(word.startswith(("--prefix", "-C", "--location")) for word in arguments)
    if tool == "npm" and is_about_a_project and not is_named and not is_project(project_folder()):
        arguments = ["--prefix", os.getcwd(), *arguments]
    for folder in os.environ.get("PATH", "").split(":"):
        path = f"{folder}/{tool}"
        if folder and os.path.normpath(folder) != OWN and os.access(path, os.X_OK):
            os.execv(path, [path, *arguments])
    print(f"{tool}: command not found", file=sys.stderr)
    sys.exit(127)


def project_folder() -> str:
    """The folder that npm takes for the project: the nearest with a package.json or node_modules."""
    folder = here = os.getcwd()
    while folder != "/":
        if is_project(folder):
            return folder
        folder = os.path.dirname(folder)
    return here


def is_project(folder: str) -> bool:
    """Say whether npm takes a folder for a project."""
    return os.path.exists(f"{folder}/package.json") or os.path.isdir(f"{folder}/node_modules")


# --- install and ci


def install(options: Options, is_ci: bool) -> int | None:
    """Install by Cloche; none if only the real npm can do this."""
    if options.is_global:
        if not options.names:
            return None
        answer = ask({"requirements": options.names, "folder": f"{GLOBAL}/lib/node_modules", "upgrade": True})
        return shown(answer, options)
    folder = options.prefix or project_folder()
    manifest = read(f"{folder}/package.json")
    if "workspaces" in manifest or (is_ci and options.names):
        return None
    wanted = dependencies(manifest, options)
    if any(map(is_elsewhere, wanted.values())):
        return None
    if options.names:
        return install_named(options, folder, manifest, wanted)
    lock = read(f"{folder}/package-lock.json") or read(f"{folder}/npm-shrinkwrap.json")
    entries = locked(lock, options)
    in_step = entries is not None and is_in_step(manifest, lock)
    if is_ci and not in_step:
        return out_of_step(bool(lock))
    if not is_ci and entries and not all(entry["integrity"] for entry in entries):
        in_step = False  # some versions of npm leave the hashes out; the registry knows them
    request: dict[str, Any] = {"folder": f"{folder}/node_modules"}
    if is_ci:
        import shutil

        shutil.rmtree(f"{folder}/node_modules", ignore_errors=True)
    if in_step and entries:
        request["locked"] = entries
    elif wanted and not in_step:
        request.update(requirements=[f"{name}@{bound or '*'}" for name, bound in wanted.items()], upgrade=True)
    else:
        return say("\nup to date", options)
    answer = ask(request)
    if "locked" not in request:
        write_lock(options, folder, manifest, answer)
    return shown(answer, options)


def install_named(options: Options, folder: str, manifest: dict[str, Any], wanted: dict[str, str]) -> int | None:
    """Install packages that the command line names, with those of the project that are missing."""
    named = [NAME.match(each) for each in options.names]
    names = [found[0] if found else "" for found in named]
    missing = [
        f"{name}@{bound or '*'}"
        for name, bound in wanted.items()
        if name not in names and not os.path.exists(f"{folder}/node_modules/{name}/package.json")
    ]
    request = {"requirements": [*options.names, *missing], "folder": f"{folder}/node_modules", "upgrade": True}
    answer = ask(request)
    if answer is not None and not answer.get("exit") and options.is_saved:
        save(options, folder, manifest, names)
        write_lock(options, folder, manifest, answer)
    return shown(answer, options)


def dependencies(manifest: dict[str, Any], options: Options) -> dict[str, str]:
    """What a package.json asks for: the range of each package."""
    found: dict[str, str] = {}
    for kind in KINDS:
        if kind == "devDependencies" and options.without_dev:
            continue
        given = manifest.get(kind)
        if isinstance(given, dict):
            found.update({str(name): str(bound) for name, bound in given.items()})
    return found


def locked(lock: dict[str, Any], options: Options) -> list[dict[str, Any]] | None:
    """The packages in a package-lock.json; none if it is of an old form, or has more than packages of the registry."""
    packages = lock.get("packages")
    if not isinstance(packages, dict):
        return None
    found = []
    for place, entry in packages.items():
        if not place or not isinstance(entry, dict) or entry.get("inBundle") or not fits(entry):
            continue
        if entry.get("dev") and options.without_dev:
            continue
        name = entry.get("name") or place.rpartition("node_modules/")[2]
        if entry.get("link") or not str(entry.get("resolved", "https://")).startswith(("http://", "https://")):
            return None
        scripts, kind = bool(entry.get("hasInstallScript")), entry.get("integrity")
        found.append(
            {"place": place, "name": name, "version": entry.get("version"), "integrity": kind, "scripts": scripts}
        )
    return found


def fits(entry: dict[str, Any]) -> bool:
    """Say whether an optional package is for this system."""
    if not entry.get("optional"):
        return True
    machine = os.uname().machine
    own = {"os": "linux", "cpu": {"x86_64": "x64", "aarch64": "arm64"}.get(machine, machine)}
    own["libc"] = "musl" if os.path.exists(f"/lib/ld-musl-{machine}.so.1") else "glibc"
    for field, value in own.items():
        words = entry.get(field) or []
        words = [words] if isinstance(words, str) else words
        positive = [word for word in words if not word.startswith("!")]
        if f"!{value}" in words or (positive and value not in positive):
            return False
    return True


def is_in_step(manifest: dict[str, Any], lock: dict[str, Any]) -> bool:
    """Say whether a lock is that of a package.json."""
    root = (lock.get("packages") or {}).get("") or {}
    return all((manifest.get(kind) or {}) == (root.get(kind) or {}) for kind in KINDS)


def out_of_step(has_lock: bool) -> int:
    """Say as npm does why `npm ci` cannot work."""
    print("npm error code EUSAGE\nnpm error", file=sys.stderr)
    if has_lock:
        text = "`npm ci` can only install packages when your package.json and package-lock.json are in sync."
        text += " Please update your lock file with `npm install` before continuing."
    else:
        text = "The `npm ci` command can only install with an existing package-lock.json or npm-shrinkwrap.json"
        text += " with lockfileVersion >= 2. Run an install with npm@7 or later to generate a package-lock.json file."
    print(f"npm error {text}", file=sys.stderr)
    return 1


def save(options: Options, folder: str, manifest: dict[str, Any], names: list[str]) -> None:
    """Write the new packages into package.json, as npm does."""
    for given, name in zip(options.names, names, strict=True):
        version = str(read(f"{folder}/node_modules/{name}/package.json").get("version", "*"))
        asked = given[len(name) + 1 :].strip()
        is_range = not re.fullmatch(r"=?v?\d+\.\d+\.\d+\S*|[A-Za-z][\w.-]*|", asked)
        bound = version if options.is_exact else f"^{version}"
        if is_range and not CAREFUL.fullmatch(asked):
            bound = asked  # a caret would allow more than was asked for
        kind = options.kind or next((each for each in KINDS if name in (manifest.get(each) or {})), "dependencies")
        for other in KINDS:
            if other != kind and name in (manifest.get(other) or {}):
                del manifest[other][name]
        manifest[kind] = dict(sorted({**(manifest.get(kind) or {}), name: bound}.items()))
    path = f"{folder}/package.json"
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def write_lock(options: Options, folder: str, manifest: dict[str, Any], answer: dict[str, Any] | None) -> None:
    """Write package-lock.json, without addresses, so that `npm ci` installs the same again."""
    if not options.has_lock or not options.is_saved or answer is None or answer.get("exit"):
        return
    path = f"{folder}/package-lock.json"
    known = read(path).get("packages")
    packages = dict(known) if isinstance(known, dict) else {}
    for place, version, integrity in answer.get("places") or ():
        about = read(f"{folder}/{place}/package.json")
        bins, scripts = about.get("bin"), about.get("scripts") or {}
        if isinstance(bins, str):
            about["bin"] = {str(about.get("name")).rpartition("/")[2]: bins}
        entry = {"version": version, "integrity": integrity, **{key: about[key] for key in KEPT if about.get(key)}}
        if not {"preinstall", "install", "postinstall"}.isdisjoint(scripts):
            entry["hasInstallScript"] = True
        packages[place] = entry
    there = {place: packages[place] for place in sorted(packages) if os.path.exists(f"{folder}/{place}/package.json")}
    there.pop("", None)
    needed = reached(there, dependencies(manifest, Options(["--omit=dev"])))
    for place, entry in there.items():
        entry.pop("dev", None)
        if place not in needed:
            entry["dev"] = True
    root = {key: manifest[key] for key in ("name", "version", *KEPT, "devDependencies") if manifest.get(key)}
    head = {"name": manifest.get("name") or os.path.basename(folder), "version": manifest.get("version")}
    lock = {**{key: value for key, value in head.items() if value}, "lockfileVersion": 3, "requires": True}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**lock, "packages": {"": root, **there}}, file, indent=2, ensure_ascii=False)
        file.write("\n")


def reached(packages: dict[str, dict[str, Any]], names: dict[str, str]) -> set[str]:
    """The places of the packages that these need, by Node's rules."""
    found: set[str] = set()
    rest = [("", name) for name in names]
    while rest:
        place, name = rest.pop()
        while f"{place}/node_modules/{name}".lstrip("/") not in packages and place:
            place = place.rpartition("node_modules/")[0].rstrip("/")
        target = f"{place}/node_modules/{name}".lstrip("/")
        if target in packages and target not in found:
            found.add(target)
            needs = (packages[target].get(kind) or {} for kind in (*KINDS, "peerDependencies") if kind != KINDS[1])
            rest += [(target, each) for names in needs for each in names]
    return found


def shown(answer: dict[str, Any] | None, options: Options) -> int:
    """Print the outcome as npm does; returns the exit code."""
    if answer is None:
        print("npm error Cloche cannot install packages in this sandbox", file=sys.stderr)
        return 1
    for line in str(answer.get("err", "")).splitlines():
        kind, _, text = line.partition(": ")
        words = {"ERROR": "npm error ", "WARNING": "npm warn "}
        print(words.get(kind, "npm error "), text if kind in words else line, sep="", file=sys.stderr)
    if answer.get("exit"):
        return int(answer["exit"])
    count = len(answer.get("installed") or ())
    return say(f"\nadded {count} package{'' if count == 1 else 's'}" if count else "\nup to date", options)


def say(text: str, options: Options) -> int:
    """Print a sentence, unless the command line forbids it."""
    if not options.is_silent:
        print(text)
    return 0


# --- npx


def run_program(arguments: list[str]) -> None:
    """Become a program of a package, which is installed if it is missing; returns if only the real npx can do this."""
    packages: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word == "--":
            break
        if option in ("-p", "--package"):
            packages.append(value if equals else rest.pop(0) if rest else "")
        elif word not in FLAGS and word not in ("--no-install", "--no"):
            return
    if not rest or is_a_place(rest[0]) or any(is_a_place(each) for each in packages):
        return
    name = NAME.match(rest[0])
    if name is None:
        return
    program = rest[0] if packages else name[0].rpartition("/")[2]
    if not packages and "@" not in rest[0][1:]:
        for folder in (*folders_of_programs(), f"{GLOBAL}/bin", "/opt/env/bin"):
            if os.access(f"{folder}/{program}", os.X_OK):
                become(f"{folder}/{program}", rest[1:], folder)
    wanted = packages or [rest[0]]
    folder = f"{TEMPORARY}/{'+'.join(wanted).replace('/', '%')[:200]}/node_modules"
    if not os.path.isdir(folder):
        answer = ask({"requirements": wanted, "folder": folder, "upgrade": True})
        if answer is None or answer.get("exit"):
            sys.exit(shown(answer, Options([])))
    if not packages:
        program = own_program(f"{folder}/{name[0]}", program)
    if not os.access(f"{folder}/.bin/{program}", os.X_OK):
        print("npm error could not determine executable to run", file=sys.stderr)
        sys.exit(1)
    become(f"{folder}/.bin/{program}", rest[1:], f"{folder}/.bin")


def folders_of_programs() -> list[str]:
    """The folders `node_modules/.bin` from the current folder upwards."""
    found, folder = [], os.getcwd()
    while folder != "/":
        found.append(f"{folder}/node_modules/.bin")
        folder = os.path.dirname(folder)
    return found


def own_program(folder: str, otherwise: str) -> str:
    """The program that stands for a package: its only one, or the one with its name."""
    given = read(f"{folder}/package.json").get("bin")
    if isinstance(given, dict) and otherwise not in given and len(set(given.values())) == 1:
        return str(next(iter(given)))
    return otherwise


def become(path: str, arguments: list[str], folder: str) -> NoReturn:
    """Run a program in place of this one."""
    os.environ["PATH"] = f"{folder}:{os.environ.get('PATH', '')}"
    try:
        os.execv(path, [path, *arguments])
    except OSError as problem:
        print(f"npm error {path}: {problem.strerror}", file=sys.stderr)
        sys.exit(1)


# --- all


def is_a_place(word: str) -> bool:
    """Say whether this is a file, a folder, an address or another name for a package, instead of a plain name."""
    name = NAME.match(word)
    rest = word[name.end() :] if name else word
    is_file = word.endswith((".tgz", ".tar.gz", ".tar"))
    return is_file or (bool(rest) and (not rest.startswith("@") or is_elsewhere(rest)))


def is_elsewhere(bound: str) -> bool:
    """Say whether a range is an address instead."""
    return ":" in bound or "/" in bound


def read(path: str) -> dict[str, Any]:
    """The table in a JSON file; empty if there is none."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def ask(request: dict[str, Any]) -> dict[str, Any] | None:
    """Send a request to Cloche, and wait for the answer; none if there is nobody to answer."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    data = b""
    try:
        connection.connect(ADDRESS)
        connection.sendall(json.dumps({"ecosystem": "javascript", **request}).encode() + b"\n")
        while piece := connection.recv(1 << 16):
            data += piece
    except OSError:
        return None
    finally:
        connection.close()
    answer: dict[str, Any] | None = json.loads(data) if data else None
    return answer


if __name__ == "__main__":
    sys.exit(main())
