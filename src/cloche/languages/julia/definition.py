"""Julia."""

from __future__ import annotations

from cloche.languages.diagnostics import by_lines
from cloche.languages.language import Failure, Language, Plan, Project
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_HEAD = "ERROR: "
_NESTED = "LoadError: "  # Julia loads a program as a file
# `KeyError: …`, `StackOverflowError:`, `DomainError with …`, `MyError(3)`
_NAMED = r"(?P<name>[A-Z]\w*(?:\.\w+)*)(?:: |:$|:(?=\n)|(?= with |\(|$))"
_PARSED = (
    r"(?m)^# Error @ .*?(?P<file>[^\s:]+):(?P<line>\d+):(?P<column>\d+)\n(?:.*\n)*?#[^\n]*?(?:── |─ )(?P<message>.*)$"
)
_LOADED = r"(?ms)syntax: (?P<message>[^\n]*)\n.*^in expression starting at (?P<file>[^\n:]+):(?P<line>\d+)"


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry in its project's environment; files that Julia compiles go to a folder of their own."""
    options = ["--startup-file=no", "--history-file=no", "--color=no"]
    if project.has("Project.toml"):
        options.append(f"--project={project.root}")
    cores = str(max(1, int(project.cpu)))  # variables, not options, so that a caller's own value counts
    env = {
        "JULIA_DEPOT_PATH": "/tmp/.julia:",
        "JULIA_PKG_OFFLINE": "true",
        "JULIA_NUM_THREADS": cores,
        "OPENBLAS_NUM_THREADS": cores,
    }
    return Plan(run=(found["julia"], *options, "--", project.entry), env=env)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's errors: since 1.10 with a picture of the place, before in one line."""
    return by_lines(output, _PARSED, project) or by_lines(output, _LOADED, project)


def explain(stderr: str) -> Failure | None:
    """Find the uncaught exception."""
    from re import match

    start = 0 if stderr.startswith(_HEAD) else stderr.rfind(f"\n{_HEAD}") + 1
    if not stderr.startswith(_HEAD, start):
        return None
    text = stderr[start:].rstrip("\n")
    error = text.removeprefix(_HEAD)
    while error.startswith(_NESTED):
        error = error.removeprefix(_NESTED)
    message = error.split("\nStacktrace:", 1)[0].split("\nin expression starting at", 1)[0].strip()
    if message.startswith(("syntax:", "ParseError:")):
        return Failure("syntax", "ParseError", message.split(":", 1)[1].strip(), text)
    named = match(_NAMED, message)
    if named is None:
        return Failure("runtime", "ErrorException", message, text)
    return Failure("runtime", named["name"], message[named.end() :].strip() or named["name"], text)


LANGUAGE = Language(
    name="julia",
    title="Julia",
    main="main.jl",
    extensions=(".jl",),
    aliases=("jl",),
    toolchain=Toolchain(
        programs=("julia",),
        folders=(
            "~/.julia/juliaup/julia-*/bin",
            "$JULIAUP_DEPOT_PATH/juliaup/julia-*/bin",
            "/opt/julia*/bin",
            "/usr/local/julia*/bin",
            "~/julia*/bin",
            "$ASDF_DATA_DIR/installs/julia/*/bin",
            "~/.asdf/installs/julia/*/bin",
            "~/.local/share/mise/installs/julia/*/bin",
        ),
        least="1.5",
        otherwise="Install Julia with juliaup (julialang.org), or unpack its archive under /opt.",
    ),
    plan=plan,
    entries=("app.jl", "run.jl", "script.jl"),
    manifests=("Project.toml",),
    diagnose=diagnose,
    explain=explain,
    hello='println("Hello from Julia")\n',
)
