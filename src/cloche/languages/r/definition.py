"""R; plots come back as pictures, and a program that uses only the package base starts without the others."""

from __future__ import annotations

import os

from cloche.languages import preparation, resources
from cloche.languages.language import Failure, Language, Plan, Preparation, Project, new_display_folder
from cloche.languages.source_words import mentions, names_in, without_comments
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_NAMES, _BASE_ONLY = "names", "lean.R"  # prepared files: the names that packages add, and a profile without them
_WORD = r"(?<!\.)\.*+[^\W\d][\w.]*"  # tried once in a row of dots: from each of them would take the square of the time
# Names that reveal which packages there are, have methods in them, or can call one by a name that is not in the
# source.
_NEEDS_PACKAGES = frozenset(
    """
    library require requireNamespace loadNamespace attachNamespace loadedNamespaces isNamespaceLoaded
    asNamespace getNamespace attach search searchpaths get get0 mget exists eval evalq eval.parent parse
    str2lang str2expression source sys.source do.call match.fun as.environment environmentName parent.env topenv
    globalenv options getOption plot print.formula formula class unclass oldClass structure Rprof system system2
    Sys.setenv quit.save mclapply
    """.split()  # noqa: SIM905
)
_LIBRARIES = ("lib/R", "lib64/R", "local/lib/R")  # R's home folder, relative to its prefix
_DEBIAN_SHARE = "/usr/share/R"
_HALTED = "\nExecution halted"
_OUT_OF_MEMORY = "cannot allocate "
# The parser's error: the unexpected token, and the end of the text that was read.
_UNEXPECTED = r'(?s)^Error: (?P<message>unexpected [^\n]*?)(?: in(?P<many>:)?[ \n]"(?P<text>.*)")?$'
_NOT_PARSED = ("unexpected ", "invalid ", "unrecognized escape", "malformed raw string", "nul character not allowed")


def plan(project: Project, found: FoundTools) -> Plan:
    """Start R as `Rscript` does, but without the two shell scripts in between."""
    env: dict[str, str] = {}
    home = _home(found)
    if home is None:
        run: tuple[str, ...] = (found["Rscript"], project.entry)
    else:
        entry = project.entry.replace(" ", "~+~")  # R's escape for spaces in this option
        run = (f"{home}/bin/exec/R", "--no-echo", "--no-restore", f"--file={entry}", "--args")
        env.update(_environment(home, found))
    if not _needs_packages(project, found):
        base_only = {"R_DEFAULT_PACKAGES": "NULL", "R_PROFILE_USER": f"{found.prepared}/{_BASE_ONLY}"}
        return Plan(run=run, env={**env, **base_only})
    folder = new_display_folder()
    profile = f"{folder}/profile.R"
    env.update(R_PROFILE_USER=profile, CLOCHE_SHOWN=folder)
    return Plan(run=run, env=env, files=((profile, resources.read("languages/r/profile.R")),), display_folder=folder)


def _needs_packages(project: Project, found: FoundTools) -> bool:
    """Could the program notice that only the package base is attached?"""
    folder = preparation.on_host(found)
    if folder is None or not project.snippet or not project.text:
        return True
    text = without_comments(project.text, "#")
    brought = names_in(os.path.join(folder, _NAMES))
    if not brought or any(sign in text for sign in ("~", "@", "`", "::")):
        return True
    return mentions(text, brought | _NEEDS_PACKAGES, _WORD)


def prepare(found: FoundTools, folder: str) -> None:
    """Ask R for the names that its default packages add."""
    import subprocess

    command = [found.on_host, "--vanilla", "-e", resources.read("languages/r/package_names.R")]
    listing = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=True)
    for name, text in ((_NAMES, listing.stdout.decode()), (_BASE_ONLY, resources.read("languages/r/base_only.R"))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def _home(found: FoundTools) -> str | None:
    """Return R's home folder inside sandboxes; None if its layout is unknown."""
    on_host, inside = (os.path.dirname(os.path.dirname(path)) for path in (found.on_host, found.first))
    for library in _LIBRARIES:
        if os.path.exists(f"{on_host}/{library}/bin/exec/R"):
            return f"{inside}/{library}"
    return None


def _environment(home: str, found: FoundTools) -> dict[str, str]:
    """Return the variables that R's shell script would set."""
    apart = found.mount is None and os.path.isdir(f"{_DEBIAN_SHARE}/share")
    share = _DEBIAN_SHARE if apart else home
    return {
        "R_HOME": home,
        "R_SHARE_DIR": f"{share}/share",
        "R_INCLUDE_DIR": f"{share}/include",
        "R_DOC_DIR": f"{share}/doc",
        "R_ARCH": "",
        "LD_LIBRARY_PATH": f"{home}/lib",
        "SED": "/bin/sed",
    }


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the parser's error; it names no line, so the quoted text is searched in the source."""
    from re import match

    error = match(_UNEXPECTED, output.partition(_HALTED)[0])
    if error is None:
        return ()
    name = project.entry.rpartition("/")[2]
    lines = (project.text or "").split("\n")
    if error["text"] is None:
        return (Diagnostic(name, max(1, len((project.text or "").rstrip("\n").split("\n"))), 0, error["message"]),)
    quoted = error["text"].split("\n")
    for number in range(len(lines) - len(quoted) + 1):
        whole = lines[number : number + len(quoted)]
        if whole[:-1] == quoted[:-1] and whole[-1].startswith(quoted[-1]):
            return (Diagnostic(name, number + len(quoted), len(quoted[-1]), error["message"]),)
    return (Diagnostic(name, 0, 0, error["message"]),)


def explain(stderr: str) -> Failure | None:
    """Find the error that halted the program."""
    end = stderr.rfind(_HALTED)
    start = max(stderr.rfind(f"\n{sign}", 0, end) + 1 if end > 0 else 0 for sign in ("Error in ", "Error: "))
    if end < 0 or not stderr.startswith(("Error in ", "Error: "), start):
        return None
    text = stderr[start : end + len(_HALTED)]
    message = _message(stderr[start:end])
    if _OUT_OF_MEMORY in message:
        return Failure("runtime", "OutOfMemoryError", message, text)
    if text.startswith("Error: ") and (message.startswith(_NOT_PARSED) or " unrecognized escape in " in message):
        return Failure("syntax", "SyntaxError", message, text)
    return Failure("runtime", "Error", message, text)


def _message(error: str) -> str:
    """Extract the message, without the call that failed and the calls that led to it."""
    error = error.split("\nCalls: ", 1)[0]
    if error.startswith("Error: "):
        return error.removeprefix("Error: ")
    call, colon, message = error.removeprefix("Error in ").partition(" : ")
    if not colon:
        call, colon, message = error.removeprefix("Error in ").partition(": ")
    return message.strip() if colon else call


LANGUAGE = Language(
    name="r",
    title="R",
    main="main.R",
    extensions=(".R", ".r"),
    aliases=("rscript", "rlang"),
    toolchain=Toolchain(
        programs=("Rscript",),
        folders=("/opt/R/*/bin", "~/.local/share/rig/R/*/bin", "~/.asdf/installs/R/*/bin", "/usr/lib/R/bin"),
        least="3.6",
        apt=("r-base-core",),
        otherwise="Install R 3.6 or later.",
    ),
    plan=plan,
    entries=("main.r", "app.R", "run.R", "analysis.R", "script.R"),
    manifests=("DESCRIPTION", "renv.lock"),
    diagnose=diagnose,
    explain=explain,
    kernel={"fork": "r", "needs": "Rscript", "ends_input": True},
    preparation=Preparation("a fast start for programs that need only the package base", prepare, version=2),
    ahead="files",
    hello='cat("Hello from R\\n")\n',
)
