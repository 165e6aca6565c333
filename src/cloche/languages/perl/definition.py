"""Perl."""

from __future__ import annotations

from cloche.languages.diagnostics import MAX_DIAGNOSTICS, number, shown_name
from cloche.languages.language import Failure, Language, Plan, Project
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

# The text after ` at main.pl`: in the error that ended a program, and in the compiler's errors.
_DIED = r" line (?P<line>\d+)(?:, <\w+> (?:line|chunk) \d+)?\.$"
_COMPLAINT = r" line (?P<line>\d+)(?P<near>\.$|, (?:near|at) .*$)"
_GUESS = " found where operator expected"  # precedes the error that it belongs to, which is matched below
_NOT_COMPILED = ("aborted due to compilation errors.", "had compilation errors.", "had too many errors.")
_NEVER_PARSED = ("Can't find string terminator", "Unmatched right", "Unrecognized character", "Missing right")
# Warnings: a program that prints one and later exits with another code than 0 did not end because of it.
_WARNINGS = (
    "Use of uninitialized value",
    "Argument ",
    "Odd number of elements",
    "Reference found where",
    "Useless use of",
    "Deep recursion on",
    "Wide character in",
    "Subroutine ",
    "Name ",
    '"my" variable',
    "Unquoted string",
    "print() on",
    "readline() on",
    "substr outside of string",
    "Scalar value ",
    "Possible ",
)


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the entry; modules are searched in a project's `lib`, and beside the entry."""
    if project.snippet:
        return Plan(run=(found["perl"], project.entry))
    places = dict.fromkeys((f"{project.root}/lib", f"{project.root}/local/lib/perl5", project.folder))
    return Plan(run=(found["perl"], project.entry), env={"PERL5LIB": ":".join(places)})


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Read the compiler's errors."""
    complaints = [complaint for line in output.split("\n") if (complaint := _complaint(line)) is not None]
    return tuple(
        Diagnostic(shown_name(file, project), line, 0, message) for message, file, line in complaints[:MAX_DIAGNOSTICS]
    )


def _complaint(line: str) -> tuple[str, str, int] | None:
    """Parse a line of the compiler's errors: message, file and line number."""
    before, found = _placed(_COMPLAINT, line)
    if found is None or _GUESS in before:
        return None
    message, _, file = before.rpartition(" at ")
    return f"{message}{found['near'].removesuffix('.')}"[:4000], file, number(found["line"])


def _placed(pattern: str, line: str) -> tuple[str, Match[str] | None]:
    """Split a line into the text before its place and the rest, if it has a place."""
    from re import search

    found = search(pattern, line)
    before = line[: found.start()] if found is not None else ""
    return before, found if " at " in before and not before[0].isspace() else None


def explain(stderr: str) -> Failure | None:
    """Find the error that ended the program, which is the last thing that it printed."""
    lines = stderr.rstrip("\n").split("\n")
    last = len(lines) - 1
    while last > 0 and lines[last].startswith("\t"):  # the stack trace, if there is one
        last -= 1
    if lines[last].endswith(_NOT_COMPILED) or lines[last].startswith("BEGIN not safe after errors"):
        return _broken(lines, last)
    if "Out of memory!" in lines[max(0, last - 2) :]:
        return Failure("runtime", "OutOfMemoryError", "Out of memory!", "\n".join(lines[max(0, last - 2) :]))
    if lines[last].startswith("BEGIN failed--") and last > 0:
        last -= 1
    return _died(lines, last)


def _broken(lines: list[str], last: int) -> Failure:
    """Describe a program that could not be compiled; the message is its first error."""
    first = last
    while first and (lines[first - 1].startswith("  (") or _complaint(lines[first - 1]) is not None):
        first -= 1
    complaint = _complaint(lines[first])
    message = complaint[0] if complaint is not None else lines[first]
    return Failure("syntax", "SyntaxError", message, "\n".join(lines[first:]))


def _died(lines: list[str], last: int) -> Failure | None:
    before, found = _placed(_DIED, lines[last])
    if found is None or before.startswith(_WARNINGS):
        return None
    message = before.rpartition(" at ")[0].split(" (@INC ", 1)[0]
    kind, name = ("syntax", "SyntaxError") if message.startswith(_NEVER_PARSED) else ("runtime", "die")
    return Failure(kind, name, message, "\n".join(lines[last:]))


LANGUAGE = Language(
    name="perl",
    title="Perl",
    main="main.pl",
    extensions=(".pl", ".pm", ".t"),
    aliases=("perl5", "pl"),
    toolchain=Toolchain(
        programs=("perl",),
        folders=(
            "$PERLBREW_ROOT/perls/*/bin",
            "~/perl5/perlbrew/perls/*/bin",
            "~/.plenv/versions/*/bin",
            "$ASDF_DATA_DIR/installs/perl/*/bin",
            "~/.asdf/installs/perl/*/bin",
            "~/.local/share/mise/installs/perl/*/bin",
        ),
        least="5.16",
        apt=("perl",),
        otherwise="Install Perl 5.16 or later.",
    ),
    plan=plan,
    entries=("app.pl", "run.pl"),
    manifests=("cpanfile", "Makefile.PL"),
    diagnose=diagnose,
    explain=explain,
    ahead="files",
    hello='print "Hello from Perl\\n";\n',
)
