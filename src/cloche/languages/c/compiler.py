"""Compiles C and C++: chooses the files of a program, calls the compiler, and reads its errors."""

from __future__ import annotations

import os
import re

from cloche.languages.c import linking
from cloche.languages.diagnostics import COMMON, by_lines, shown_name
from cloche.languages.language import SCRATCH, Failure, Plan, Project, Step
from cloche.model.result import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cloche.languages.toolchain import FoundTools

FLAGS = ("-O1", "-Wall", "-pthread")  # a precompiled header works only with the flags that it was made with
MAX_LOOKED_AT = 32 << 10  # characters; other runs wait while a source is analysed, and longer ones are no snippets
CPP = (".cpp", ".cc", ".cxx", ".c++")
_HEADERS = ("", "include", "src")  # folders of a project that are searched for headers
_TESTS = ("test", "tests")  # folders whose files are not part of the program
# How the names of headers begin, and the libraries that a program has to be linked with.
_LIBRARIES = {
    "openssl/": ("-lssl", "-lcrypto"),
    "zlib.h": ("-lz",),
    "sqlite3.h": ("-lsqlite3",),
    "curl/": ("-lcurl",),
    "ncurses.h": ("-lncurses",),
    "curses.h": ("-lncurses",),
    "readline/": ("-lreadline",),
    "gmp.h": ("-lgmp",),
    "gmpxx.h": ("-lgmpxx", "-lgmp"),
    "mpfr.h": ("-lmpfr", "-lgmp"),
    "omp.h": ("-fopenmp",),
}

# Errors of the linkers GNU ld and gold.
_UNDEFINED = re.compile(
    r"^(?:\S*ld(?:\.\w+)?: )?(?:\S+\.o:)?(?P<file>[^\s:()][^:\n()]*):(?:\(\.[^)\s]*\)|function [^\n]*?): (?:error: )?"
    r"(?P<message>undefined reference to .*|multiple definition of .*)$",
    re.MULTILINE,
)
_TWICE = re.compile(r"^\S*gold: error: \S+: (?P<message>multiple definition of .*)$", re.MULTILINE)
_START = re.compile(r"^(?:.*/)?\w*crt1\.o$")  # the start code that calls `main`, and misses it
_THROWN = re.compile(
    r"^terminate called after throwing an instance of '(?P<name>[^\n]+)'\n(?:  what\(\):  (?P<what>.*))?",
    re.DOTALL | re.MULTILINE,
)
_ASSERTION = re.compile(  # bounded: a program may print text that would take forever to match
    r"^[^\n:]*: (?P<file>[^\n:]+):(?P<line>\d{1,9}): [^\n]{0,999}?Assertion `(?P<what>[^\n]{0,3999})' failed\.$",
    re.MULTILINE,
)
_ABORTED = re.compile(
    r"^(?P<what>terminate called [^\n]*|\*\*\* [^\n]* \*\*\*: terminated"
    r"|(?:free|malloc|realloc|calloc|munmap_chunk|corrupted|double free)\b[^\n]*)\n?\Z",
    re.MULTILINE,
)


def plan(project: Project, found: FoundTools, options: Iterable[str], whole: str | None = None) -> Plan:
    """Compile a program: its entry, or `whole`, the text that was made of it, and the other files that belong to it."""
    name = os.path.basename(project.entry)
    program = f"{SCRATCH}/{name.rpartition('.')[0] or f'{name}.out'}"
    made = f"{SCRATCH}/{name}"
    files = sources(project) if whole is None else [made]
    folders = dict.fromkeys((project.folder, *(os.path.join(project.root, each).rstrip("/") for each in _HEADERS)))
    command = (found[next(iter(found.programs))], *FLAGS, *options, *(f"-I{each}" for each in folders))
    steps: tuple[Step, ...]
    needed = libraries(project)
    linked = linking.command(found, program, f"{program}.o") if len(files) == 1 and not needed else ()
    if linked:
        compiled = (*command, "-c", "-o", f"{program}.o", *_marked(files))
        steps = Step("compile", compiled, cwd=project.root), Step("link", linked, cwd=project.root)
    else:
        gold = ("-fuse-ld=gold",) if linking.linker(found).endswith("gold") else ()
        steps = (Step("compile", (*command, *gold, "-o", program, *_marked(files), *needed, "-lm"), cwd=project.root),)
    return Plan(run=(program,), before=steps, files=() if whole is None else ((made, whole),))


def sources(project: Project) -> list[str]:
    """List the files to compile: the entry, and if it needs others, those of its kind that have no `main`."""
    # Imported here and below, so that runs that do not need it do not wait for it.
    from cloche.languages.c.snippet import has_main, includes, stands_alone

    entry = project.entry.removeprefix(f"{project.root}/")
    kinds = (".c",) if entry.endswith(".c") else (*CPP, ".c")
    others = [name for name in sorted(project.files) if name.endswith(kinds) and name != entry]
    others = [name for name in others if name.split("/")[0] not in _TESTS or entry.split("/")[0] in _TESTS]
    if others and project.text is not None and stands_alone(project.text):
        return [entry]
    texts = {entry: project.text or "", **project.texts}
    within = tuple(f"/{name.lstrip('./')}" for text in texts.values() for name, system in includes(text) if not system)
    others = [name for name in others if not f"/{name}".endswith(within)]  # included by another source
    return [entry, *(name for name in others if not has_main(texts.get(name, "")))]


def libraries(project: Project) -> list[str]:
    """List the libraries to link with, by the headers that are included."""
    from cloche.languages.c.snippet import includes

    named = {name for text in (project.text or "", *project.texts.values()) for name, _ in includes(text)}
    wanted = [flags for start, flags in _LIBRARIES.items() if any(name.startswith(start) for name in named)]
    return list(dict.fromkeys(flag for flags in wanted for flag in flags))


def _marked(files: Sequence[str]) -> list[str]:
    """Turn file names into arguments: none looks like an option, and a C++ compiler treats C files as C."""
    marked = []
    for name in files:
        plain = name if name[0] not in "-@" else f"./{name}"
        mixed = name.endswith(".c") and any(other.endswith(CPP) for other in files)
        marked += ["-x", "c", plain, "-x", "none"] if mixed else [plain]
    return marked


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the errors of the compiler and the linker."""
    unresolved = (
        Diagnostic(shown_name(_START.sub(project.entry, match["file"]), project), 0, 0, match["message"])
        for match in _UNDEFINED.finditer(output)
    )
    entry = shown_name(project.entry, project)  # gold does not name the source
    twice = (Diagnostic(entry, 0, 0, match["message"]) for match in _TWICE.finditer(output))
    return (*by_lines(output, COMMON, project), *unresolved, *twice)


def explain(stderr: str) -> Failure | None:
    """Find an uncaught exception, a failed assertion, or an error of the heap that the C library reports."""
    thrown = _last(_THROWN, stderr)
    if thrown is not None:
        return Failure("runtime", thrown["name"], (thrown["what"] or "").rstrip("\n"), stderr[thrown.start() :])
    failed = _last(_ASSERTION, stderr)
    if failed is not None:
        message = f"{failed['what']} ({os.path.basename(failed['file'])}, line {failed['line']})"
        return Failure("runtime", "assertion", message, stderr[failed.start() :])
    aborted = _last(_ABORTED, stderr)
    if aborted is not None:
        return Failure("runtime", "abort", aborted["what"], stderr[aborted.start() :])
    return None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return matches[-1] if matches else None
