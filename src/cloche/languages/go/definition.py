"""Go, compiled by our own builder (builder/), which calls Go's compiler and linker itself."""

from __future__ import annotations

import os

from cloche.languages.diagnostics import by_lines
from cloche.languages.language import SCRATCH, WITH_DEPENDENCIES, Failure, Language, Plan, Preparation, Project, Step
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_BUILDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "builder")
_ERROR = r"^(?P<file>[^\s:][^:\n]*\.(?:go|mod|s)):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<message>.*(?:\n\t.*)*)$"
# The output of a crash: `panic: …` or `fatal error: …`, a blank line, and a trace of every goroutine.
_ENDED = r"^(?P<what>panic|fatal error): "
_TRACE = r"^(?:goroutine \d|runtime stack:)"
# Programs need the same flags as the standard library; nobody uses the debug tables.
_FLAGS = "-gcflags=all=-dwarf=false"


def plan(project: Project, found: FoundTools) -> Plan:
    """Build the program and run the result."""
    scratch = SCRATCH + project.entry  # a folder of its own, because two programs may be built at the same time
    program = f"{scratch}/main"
    builder, before, files = _builder(found)
    options = ["-root", project.root, "-o", program, "-go", found["go"]]
    if project.snippet:
        options.append("-alone")
    if found.prepared is not None:
        options += ["-prepared", found.prepared]
    environment = {"GOMAXPROCS": _cores(project, 2), "GOGC": "off", "GOMEMLIMIT": str(project.memory // 3)}
    command = (builder, *options, project.entry)
    is_vendored = any(name.startswith("vendor/") for name in project.files)
    if "require" in project.texts.get("go.mod", "") and not is_vendored:
        command = (*WITH_DEPENDENCIES, "go", project.root, *command)
    build = Step("compile", command, cwd=scratch, env=environment)
    run = (program, "-test.v") if project.entry.endswith("_test.go") else (program,)
    # As many threads as cores: on a big host Go would start more than a sandbox may have.  GOMEMLIMIT makes the garbage
    # collector work harder; it does not limit the program.
    env = {"GOMAXPROCS": _cores(project, 1), "GOMEMLIMIT": str(project.memory * 4 // 5)}
    return Plan(run=run, before=(*before, build), files=files, env=env)


def _builder(found: FoundTools) -> tuple[str, tuple[Step, ...], tuple[tuple[str, str], ...]]:
    """Return the program that builds others: prepared, or to be built first."""
    if found.prepared is not None:
        return f"{found.prepared}/builder", (), ()
    folder = f"{SCRATCH}/builder"
    files = tuple((f"{folder}/{name}", text) for name, text in _sources())
    command = (found["go"], "build", _FLAGS, "-o", "builder", *(name for name, _ in _sources()))
    environment = {"GOCACHE": f"{SCRATCH}/cache", **_OFFLINE}
    return f"{folder}/builder", (Step("prepare", command, cwd=folder, env=environment),), files


_OFFLINE = {"GOFLAGS": "-buildvcs=false", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOENV": "off"}


def _sources() -> list[tuple[str, str]]:
    found = []
    for name in sorted(os.listdir(_BUILDER)):
        if name.endswith(".go"):
            with open(os.path.join(_BUILDER, name), encoding="utf-8") as file:
                found.append((name, file.read()))
    return found


def _cores(project: Project, least: int) -> str:
    return str(max(least, -int(-project.cpu // 1)))


def prepare(found: FoundTools, folder: str) -> None:
    """Compile the standard library and our builder."""
    import subprocess
    from shutil import which

    from cloche.languages.preparation import INSIDE

    cache = os.path.join(folder, "cache")
    environment = {**os.environ, **_OFFLINE, "GOCACHE": cache, "GOPATH": os.path.join(folder, "none")}

    def go(*words: str, **more: str) -> str:
        done = subprocess.run(
            [found.on_host, *words],
            cwd=_BUILDER,
            env={**environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise subprocess.SubprocessError(done.stderr.strip()[-2000:])
        return done.stdout

    go("build", _FLAGS, "std")
    archive = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"
    listed = go("list", "-export", _FLAGS, "-f", archive, "std")
    with open(os.path.join(folder, "importcfg"), "w") as file:
        file.write(listed.replace(f"={folder}/", f"={INSIDE}/{os.path.basename(folder)}/"))
    if which("gcc"):
        go("build", _FLAGS, "runtime/cgo", "net", "os/user", CGO_ENABLED="1")
    go("build", _FLAGS, "-ldflags=-s -w", "-o", os.path.join(folder, "builder"), *(name for name, _ in _sources()))


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors: `main.go:3:5: undefined: x`, continued on indented lines."""
    return by_lines(output, _ERROR, project)


def explain(stderr: str) -> Failure | None:
    """Find an unrecovered panic, or a fatal error of Go's runtime."""
    from re import MULTILINE, compile, search

    ended = search(_ENDED, stderr, MULTILINE) if "\ngoroutine " in stderr else None
    end = stderr.find("\n\n", ended.end()) if ended is not None else -1
    if ended is None or end < 0 or compile(_TRACE, MULTILINE).search(stderr, end) is None:
        return None
    message = stderr[ended.end() : end].split("\n[signal ")[0].strip()
    name = "OutOfMemoryError" if "out of memory" in message and ended["what"] != "panic" else ended["what"]
    return Failure("runtime", name, message, stderr[ended.start() :])


LANGUAGE = Language(
    name="go",
    title="Go",
    main="main.go",
    extensions=(".go",),
    aliases=("golang",),
    toolchain=Toolchain(
        programs=("go",),
        folders=(
            "$GOROOT/bin",
            "/usr/local/go/bin",
            "/usr/lib/go-*/bin",
            "~/sdk/go*/bin",
            "~/go/sdk/go*/bin",
            "~/.local/go/bin",
            "~/.goenv/versions/*/bin",
            "~/.gvm/gos/*/bin",
            "~/.g/go/bin",
            "$ASDF_DATA_DIR/installs/golang/*/go/bin",
            "~/.asdf/installs/golang/*/go/bin",
            "~/.local/share/mise/installs/go/*/bin",
            "/snap/go/current/bin",
            "/home/linuxbrew/.linuxbrew/opt/go/libexec/bin",
        ),
        version=("version",),
        pattern=r"go(\d+\.\d+(?:\.\d+)?)",
        least="1.21",
        apt=("golang-go",),
        otherwise="Unpack Go 1.21 or later from go.dev/dl to /usr/local/go; what Debian 12 has is older.",
    ),
    plan=plan,
    entries=("cmd/main.go", "app.go", "server.go"),
    manifests=("go.mod",),
    reads=("go.mod",),
    diagnose=diagnose,
    explain=explain,
    preparation=Preparation("the standard library, compiled (a minute, 100 MB)", prepare, version=3),
    hello='package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println("Hello from Go")\n}\n',
)
