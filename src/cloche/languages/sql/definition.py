"""SQL, run by DuckDB: results come back as tables, and data files can be queried in place."""

from __future__ import annotations

from cloche.languages import resources
from cloche.languages.diagnostics import number
from cloche.languages.language import Failure, Language, Plan, Project, new_display_folder
from cloche.languages.toolchain import FoundTools, Toolchain
from cloche.model.result import Diagnostic

_ERROR = r"(?ms)^(?P<name>[A-Z][\w ]*?)(?: Error|Exception): (?P<message>.*)"
_PLACE = r"(?m)^LINE (?P<line>\d+): (?P<text>.*)\n(?P<space> *)\^"
_NOT_PARSED = ("Parser", "Syntax")


def plan(project: Project, found: FoundTools) -> Plan:
    """Run the program with our own script (runner.py) in the sandbox's Python."""
    room = str(max(1, int(project.cpu))), str(project.memory)
    return plan_with("languages/sql/runner.py", project, found, *room)


def plan_with(script: str, project: Project, found: FoundTools, *options: str) -> Plan:
    """Run the program with a script of ours that saves results for display."""
    folder = new_display_folder()
    files = (
        (f"{folder}/sql.py", resources.read(script)),
        (f"{folder}/query_results.py", resources.read("languages/sql/query_results.py")),
        (f"{folder}/tables.py", resources.read("kernels/tables.py")),
    )
    run = (found["python3"], "-EsB", f"{folder}/sql.py", project.entry, folder, *options)
    return Plan(run=run, files=files, display_folder=folder)


def diagnose(output: str, project: Project) -> tuple[Diagnostic, ...]:
    """Find the place that DuckDB reports."""
    from re import search

    error, place = search(_ERROR, output), search(_PLACE, output)
    if error is None or place is None:
        return ()
    column = 0 if place["text"].startswith("...") else len(place["space"]) - len(f"LINE {place['line']}: ") + 1
    message = error["message"].split("\n\nLINE ", 1)[0].split("\n\nNote: ", 1)[0].strip()
    return (Diagnostic(project.entry.rpartition("/")[2], number(place["line"]), max(column, 0), message),)


def explain(stderr: str) -> Failure | None:
    """Find the error of the statement that failed."""
    from re import search

    error = search(_ERROR, stderr)
    if error is None:
        return None
    message = error["message"].split("\n\nLINE ", 1)[0].split("\n\nNote: ", 1)[0].strip()
    if error["name"] == "Out of Memory":
        return Failure("runtime", "OutOfMemoryError", message, stderr)
    kind = "syntax" if error["name"] in _NOT_PARSED else "runtime"
    return Failure(kind, f"{error['name']} Error", message, stderr)


LANGUAGE = Language(
    name="sql",
    title="SQL",
    main="main.sql",
    extensions=(".sql",),
    aliases=("duckdb",),
    toolchain=Toolchain(programs=("python3",), package="duckdb", inside=True),
    plan=plan,
    entries=("query.sql", "queries.sql", "schema.sql"),
    diagnose=diagnose,
    explain=explain,
    hello="SELECT 'Hello from SQL' AS greeting;\n",
)
