"""Rust: rustc compiles files and simple projects; Cargo builds the others, offline, with crates of Cloche's cache."""

from __future__ import annotations

import os
import re

from cloche.languages.diagnostics import MAX_DIAGNOSTICS, number, shown_name
from cloche.languages.language import SCRATCH, WITH_DEPENDENCIES, Failure, Language, Plan, Project, Step
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cloche.languages.rust.cargo import Manifest

_EDITION = "2021"
MAX_LOOKED_AT = 32 << 10  # characters; other runs wait while a source is analysed, and longer ones are no snippets
# Overflows and debug assertions are reported as in a debug build, but loops run at a decent speed.
_FLAGS = ("-Copt-level=1", "-Cdebug-assertions=on", "-Cdebuginfo=0", "-Ccodegen-units=1")
_SHARED = ("-Cprefer-dynamic", "-Crpath")  # linking the standard library statically takes longer than the rest
_NOT_SHARED = ("global_allocator", "no_std", "no_main")  # do not work with the shared library

_MESSAGE = re.compile(
    r"^(?P<severity>error|warning)(?:\[(?P<code>E\d+)\])?: (?P<message>[^\n]*)\n"
    r"(?: *--> (?P<file>[^\n]+?):(?P<line>\d+):(?P<column>\d+)\n)?(?P<rest>(?:[ \d][^\n]*\n)*)",
    re.MULTILINE,
)
_SUMMARY = re.compile(r"aborting due to|could not compile|\d+ warnings? emitted|`.*` \(.*\) generated")
_LINT = re.compile(r"#\[(?:warn|deny)\((\w+)\)\]")
# Bounded: a program may print text that would take forever to match.
_PANIC = re.compile(
    r"^thread '[^\n]{0,99}?'(?: \(\d+\))? panicked at (?:'(?P<old>.{0,999}?)', )?(?P<place>[^\n]{1,999}:\d+:\d+):?\n"
    r"(?P<message>.*?)(?=^note: |^stack backtrace:|\Z)",
    re.DOTALL | re.MULTILINE,
)
_FATAL = re.compile(r"^(?:fatal runtime error: (?P<what>[^\n,]*)|memory allocation of \d+ bytes failed)", re.MULTILINE)
_RETURNED = re.compile(r"^Error: (?P<message>.*)\Z", re.DOTALL | re.MULTILINE)


def home(rustc: str) -> str:
    """Return the toolchain's folder: rustup's programs only choose a toolchain, so the same one is chosen here."""
    real = os.path.realpath(rustc)
    if os.path.basename(real) != "rustup" and not os.path.exists(os.path.join(os.path.dirname(rustc), "rustup")):
        return os.path.dirname(os.path.dirname(real))
    place = os.path.join(os.environ.get("RUSTUP_HOME") or os.path.expanduser("~/.rustup"))
    for name in (os.environ.get("RUSTUP_TOOLCHAIN", ""), _default(place), "stable"):
        for folder in _installed(place):
            if name and os.path.basename(folder).startswith(name):
                return folder
    return next(iter(_installed(place)), "")


def _default(place: str) -> str:
    try:
        with open(f"{place}/settings.toml") as file:
            chosen = re.search(r'^default_toolchain = "([^"/]+)"', file.read(), re.MULTILINE)
    except OSError:
        return ""
    return chosen[1] if chosen is not None else ""


def _installed(place: str) -> list[str]:
    try:
        return sorted((f"{place}/toolchains/{name}" for name in os.listdir(f"{place}/toolchains")), reverse=True)
    except OSError:
        return []


def plan(project: Project, found: FoundTools) -> Plan:
    """Compile a file, or the package of a manifest."""
    if project.has("Cargo.toml"):
        from cloche.languages.rust import cargo

        manifest = cargo.read(project)
        if manifest is not None and manifest.simple:
            return _by_manifest(project, found, manifest)
        return _by_cargo(project, found, manifest)
    name = project.entry.removeprefix(f"{project.root}/")
    testing = ("--test",) if _is_tests_alone(project.text or "") else ()
    step, program = _compiled(project, found, name, _EDITION, "", *testing)
    whole = _completed(project)
    return Plan(run=(program,), before=(step,), files=((project.entry, whole[0]),) if whole is not None else ())


def _is_tests_alone(text: str) -> bool:
    """Does the source contain tests and no `main`?"""
    return re.search(r"(?:^|[{};])[ \t]*#\[test\]", text, re.MULTILINE) is not None and "fn main" not in text


def _completed(project: Project) -> tuple[str, int, int] | None:
    """Wrap a snippet in the `main` that it lacks; also return in which line how many characters were inserted."""
    if not project.snippet or project.text is None or len(project.text) > MAX_LOOKED_AT:
        return None
    from cloche.languages.rust.snippet import wrapped

    return wrapped(project.text)


def _compiled(
    project: Project, found: FoundTools, source: str, edition: str, crate: str = "", *options: str
) -> tuple[Step, str]:
    """Return the step that compiles a source, and the path of the program."""
    stem = os.path.basename(source).removesuffix(".rs")
    program = f"{SCRATCH}/{crate or stem or 'main'}"
    crate = re.sub(r"\W", "_", crate or stem, flags=re.ASCII)
    crate = crate if crate[:1].isalpha() else f"_{crate}"
    shared = () if any(word in (project.text or "") for word in _NOT_SHARED) else _SHARED
    plain = source if source[0] not in "-@" else f"./{source}"
    named = (f"--edition={edition}", f"--crate-name={crate}")
    command = (found["rustc"], *named, *_FLAGS, *shared, *options, "-o", program, plain)
    return Step("compile", command, cwd=project.root), program


def _by_manifest(project: Project, found: FoundTools, manifest: Manifest) -> Plan:
    """Do what Cargo would for a package without dependencies: compile its library, if any, and its program."""
    from cloche.languages.rust.cargo import environment

    entry = project.entry.removeprefix(f"{project.root}/")
    features = [f'--cfg=feature="{name}"' for name in manifest.features]
    crate = _binary(manifest, entry)
    steps, options = [], list(features)
    if manifest.library and manifest.library != entry:
        made = f"{SCRATCH}/lib{manifest.library_name}.rlib"
        named = (f"--edition={manifest.edition}", f"--crate-name={manifest.library_name}", "--crate-type=rlib")
        command = (found["rustc"], *named, *_FLAGS, *features, "-o", made, manifest.library)
        env = environment(manifest, project.root, manifest.library_name)
        steps.append(Step("compile library", command, cwd=project.root, env=env))
        options += ["--extern", f"{manifest.library_name}={made}"]
    if _is_tests_alone(project.text or ""):
        options.append("--test")
    step, program = _compiled(project, found, entry, manifest.edition, crate, *options)
    steps.append(step.replace(env=environment(manifest, project.root, crate)))
    return Plan(run=(program,), before=tuple(steps))


def _by_cargo(project: Project, found: FoundTools, manifest: Manifest | None) -> Plan:
    """Let Cargo build the project, from the files that are there and from crates that Cloche provides."""
    cargo = f"{os.path.dirname(found['rustc'])}/cargo"
    if not os.path.exists(f"{os.path.dirname(found.on_host)}/cargo"):
        return Plan(run=(), missing="This project needs Cargo, which is not installed on this host.")
    crate = _binary(manifest, project.entry.removeprefix(f"{project.root}/")) if manifest is not None else "main"
    target = f"{SCRATCH}/target"
    command = [cargo, "build", "--offline", "--quiet", "--target-dir", target, "--color=never"]
    if manifest is not None:
        command += ["--bin", crate]
    if _is_vendored(project) and not project.has(".cargo/config.toml"):
        command += ["--config", 'source.crates-io.replace-with="vendored"']
        command += ["--config", 'source.vendored.directory="vendor"']
    if not _is_vendored(project):
        command = [*WITH_DEPENDENCIES, "cargo", project.root, *command]
    env = {"CARGO_HOME": f"{SCRATCH}/cargo", "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
    return Plan(run=(f"{target}/debug/{crate}",), before=(Step("compile", tuple(command), project.root, env),))


def _binary(manifest: Manifest, entry: str) -> str:
    """Return the name of the program with this entry."""
    if entry in manifest.binaries:
        return manifest.binaries[entry]
    if entry.startswith("src/bin/"):
        return entry.removeprefix("src/bin/").removesuffix("/main.rs").removesuffix(".rs")
    return manifest.name


def _is_vendored(project: Project) -> bool:
    return any(name.startswith("vendor/") for name in project.files)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors; columns in a wrapped snippet are those of the author's text."""
    _, line, shift = _completed(project) or ("", 0, 0)
    found = []
    for match in _MESSAGE.finditer(output):
        if _SUMMARY.match(match["message"]):
            continue
        lint = _LINT.search(match["rest"])
        row, column = number(match["line"]), number(match["column"])
        if line and row > (project.text or "").count("\n") + 1:
            continue  # an error in the lines that were appended
        if row == line and column > shift:
            column -= shift
        code = match["code"] or (lint[1] if lint is not None else "")
        name = shown_name(match["file"] or "", project)
        found.append(Diagnostic(name, row, column, match["message"], match["severity"], code))
    return tuple(found[:MAX_DIAGNOSTICS])


def explain(stderr: str) -> Failure | None:
    """Find a panic, an error that `main` returned, or a fatal error of the runtime."""
    panics = list(_PANIC.finditer(stderr))
    fatal = _FATAL.search(stderr)
    if fatal is not None:
        name = fatal["what"] or "OutOfMemoryError"
        return Failure("runtime", name, fatal[0], stderr[(panics[-1] if panics else fatal).start() :])
    if panics:
        last = panics[-1]
        message = (last["old"] or last["message"]).strip("\n")
        return Failure("runtime", "panic", f"{message} ({last['place']})", stderr[last.start() :])
    returned = _RETURNED.search(stderr)
    if returned is not None:
        return Failure("runtime", "Error", returned["message"].strip("\n"), stderr[returned.start() :])
    return None


LANGUAGE = Language(
    name="rust",
    title="Rust",
    main="main.rs",
    extensions=(".rs",),
    aliases=("rs", "rustc", "cargo"),
    toolchain=Toolchain(
        programs=("rustc",),
        folders=(
            "$CARGO_HOME/bin",
            "~/.cargo/bin",
            "~/.asdf/installs/rust/*/bin",
            "~/.local/share/mise/installs/rust/*/bin",
            "/usr/local/cargo/bin",
            "/usr/lib/rust-*/bin",
        ),
        least="1.56",
        apt=("rustc", "cargo", "gcc", "libc6-dev"),
        otherwise="Install it with rustup, for the user that Cloche runs as; a C compiler is needed for linking.",
        home=home,
    ),
    plan=plan,
    entries=("src/main.rs",),
    manifests=("Cargo.toml",),
    reads=("Cargo.toml",),
    diagnose=diagnose,
    explain=explain,
    hello='fn main() {\n    println!("Hello from Rust");\n}\n',
)
