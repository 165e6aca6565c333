"""`cloche languages`: lists the languages that this host can run; `install` and `prepare` add others."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from cloche.languages.availability import Availability
    from cloche.languages.language import Language

NOT_ALL = 1  # the exit code when something could not be installed or prepared
_STYLES = {"ready": "green", "old": "yellow", "installable": "yellow", "unavailable": "red"}


def add(commands: Any, shape: dict[str, Any]) -> None:
    parser = commands.add_parser(
        "languages",
        help="list the languages that can run here, or install others",
        description="Lists the languages with their versions, whether each can run here, and how to get the missing "
        "ones.  `install` installs their tools with apt (as root, or with sudo without a password) and prepares them; "
        "`prepare` makes files once that let them start faster, such as compiled standard libraries.",
        **shape,
    )
    parser.add_argument(
        "action", nargs="?", choices=("install", "prepare"), help="what to do; default: list the languages"
    )
    parser.add_argument("names", nargs="*", metavar="LANGUAGE", help="languages; `prepare` without names prepares all")
    parser.add_argument("--all", action="store_true", help="install every missing language that apt has")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def main(arguments: argparse.Namespace) -> int:
    if arguments.action == "install":
        return _install(arguments.names, arguments.all)
    if arguments.action == "prepare":
        return _prepare(arguments.names)
    return _list(_states(), arguments.json)


def _states(names: Sequence[str] | None = None) -> list[Availability]:
    from cloche import environment, settings
    from cloche.languages.availability import check_languages

    return check_languages(environment.manifest(settings.load().environment or environment.location()), names)


# --- the list


def _list(states: list[Availability], as_json: bool) -> int:
    import sys

    if as_json:
        from json import dumps

        print(dumps([state.as_dict() for state in states], indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(states)
    else:
        _print_lines(states)
    return 0


_COLUMNS = ("language", "version", "state", "runs as", "where")


def _row(state: Availability) -> tuple[str, ...]:
    status = "ready, not prepared" if state.state == "ready" and state.prepared is False else state.state
    runs_as = "program, session" if state.sessions else "program"
    return state.title, state.version or "", status, runs_as, _note(state)


def _note(state: Availability) -> str:
    """Return the path of the language, or else why it cannot run and what to do."""
    return f"{state.why} {state.remedy}".strip() if state.why else state.where


def _print_lines(states: list[Availability]) -> None:
    rows = [_COLUMNS, *map(_row, states)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_table(states: list[Availability]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in _COLUMNS[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(_COLUMNS[-1], overflow="fold")
    for state in states:
        title, version, status, runs_as, _ = _row(state)
        note = Text(state.why or state.where, style="" if state.why else "dim")
        if state.remedy:
            note.append(f"\n{state.remedy}", style="bold")
        style = "yellow" if state.prepared is False else _STYLES[state.state]
        table.add_row(Text(title), Text(version), Text(status, style=style), Text(runs_as, style="dim"), note)
    Console(highlight=False).print(table)


# --- installing and preparing


def _install(names: Sequence[str], everything: bool) -> int:
    from cloche import languages
    from cloche.errors import InvalidRun
    from cloche.languages.availability import INSTALLABLE, OLD, READY

    if bool(names) == everything:
        raise InvalidRun(
            "`cloche languages install` needs the names of languages.",
            hint="For example `cloche languages install go rust`, or `--all`.",
        )
    wanted = list(dict.fromkeys(languages.find(name).name for name in names)) if names else languages.names()
    states = _states(wanted)
    for state in states:
        if names and state.state == READY:
            _say(f"{state.title} {state.version or ''} is already installed: {state.where}")
    missing = [state for state in states if state.state == INSTALLABLE or (names and state.state == OLD)]
    if missing:
        _install_by_apt([languages.find(state.name) for state in missing])
    _prepare_files([languages.find(name) for name in wanted])
    return _report(_states(wanted) if missing else states, by_name=bool(names))


def _report(states: list[Availability], by_name: bool) -> int:
    """Report the languages that cannot run; `--all` does not fail because of those that apt does not have."""
    from cloche.cli.main import complain

    code = 0
    for state in states:
        if state.state == "ready" or (not by_name and state.state in ("unavailable", "old")):
            continue
        complain(f"{state.title} is {state.state}. {state.why}", state.remedy)
        code = NOT_ALL
    return code


def _install_by_apt(wanted: list[Language]) -> None:
    import sys

    from cloche.languages.install import install, packages

    names = packages(wanted)
    titles = ", ".join(language.title for language in wanted)
    if not sys.stderr.isatty():
        _say(f"Installing {titles} (apt: {' '.join(names)})")
        install(names)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")) as bar:
        task = bar.add_task(f"Installing {titles}", total=1.0)
        install(names, lambda done, what: bar.update(task, completed=done, description=what[:60]))
        bar.update(task, completed=1.0, description=f"Installed {titles}")


def _prepare(names: Sequence[str]) -> int:
    from cloche import languages
    from cloche.languages import locales
    from cloche.languages.availability import not_ready

    wanted = [languages.find(name) for name in names] or languages.everything()
    if not names:
        locales.prepare(_say)
    code = NOT_ALL if _prepare_files(wanted) else 0
    if names:
        absent = [language for language in wanted if languages.tools(language) is None]
        return _report(not_ready(_states([language.name for language in absent])), by_name=True) or code
    return code


def _prepare_files(wanted: list[Language]) -> list[str]:
    from cloche.languages.install import prepare

    return prepare(wanted, _say)


def _say(text: str) -> None:
    import sys

    print(text, file=sys.stderr, flush=True)
