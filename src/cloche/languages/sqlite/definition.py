"""SQLite's SQL, run by the SQLite of the sandboxes' Python: results come back as tables."""

from __future__ import annotations

from cloche.languages.diagnostics import number
from cloche.languages.language import Failure, Language, Plan, Project
from cloche.languages.sql.definition import plan_with
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_ERROR = r"(?m)^(?P<kind>Parse|Runtime) error near line (?P<line>\d+): (?P<message>.*)"


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the program with our own script (runner.py) in the sandbox's Python."""
    return plan_with("languages/sqlite/runner.py", project, found)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Find the statement that failed."""
    from re import search

    error = search(_ERROR, output)
    if error is None or error["kind"] != "Parse":
        return ()
    return (Diagnostic(project.entry.rpartition("/")[2], number(error["line"]), 0, error["message"].strip()),)


def explain(stderr: str) -> Failure | None:
    """Find the error of the statement that failed."""
    from re import search

    error = search(_ERROR, stderr)
    if error is None:
        return None
    kind = "syntax" if error["kind"] == "Parse" else "runtime"
    return Failure(kind, f"{error['kind']} error", error["message"].strip(), stderr)


LANGUAGE = Language(
    name="sqlite",
    title="SQLite",
    main="main.sqlite",
    extensions=(".sqlite",),
    aliases=("sqlite3",),
    toolchain=Toolchain(programs=("python3",), inside=True),
    plan=plan,
    diagnose=diagnose,
    explain=explain,
    hello="SELECT 'Hello from SQLite' AS greeting;\n",
)
