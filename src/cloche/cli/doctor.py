"""`cloche doctor`: checks what this host offers and what is missing; with `--probe` it also attacks the walls."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from cloche.doctor.probe import Finding
    from cloche.doctor.probes import Scorecard
    from cloche.doctor.survey import Survey, WallState
    from cloche.settings import Settings

CANNOT_RUN, NOT_HELD = 1, 2
_SIGNS = {
    "ok": ("✓", "green"),
    "weaker": ("!", "yellow"),
    "missing": ("✗", "red"),
    "not configured": ("·", "dim"),
    "held": ("✓", "green"),
    "NOT held": ("✗", "bold red"),
    "could not be tried": ("?", "yellow"),
}
_DETAIL = 400  # characters of a probe's detail that are shown


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options."""
    parser = commands.add_parser(
        "doctor",
        help="what this host offers, and what is missing",
        description="Shows which isolation, limits and languages this host has, what is missing and how to get it.",
        epilog="Exit code: 0 when Cloche can run here, 1 when it cannot, 2 when a probe got through a wall.",
        **shape,
    )
    parser.add_argument("--probe", action="store_true", help="attack the walls with escape probes and keep score")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    """Survey the host, attack the walls if `--probe` is given, and print the outcome; returns the exit code."""
    from cloche import settings

    loaded = settings.load()
    return _as_json(loaded, arguments.probe) if arguments.json else _as_tables(loaded, arguments.probe)


def _as_json(settings: Settings, probe: bool) -> int:
    from json import dumps

    from cloche.doctor.survey import survey

    found = survey(settings)
    cards = _attack(found, settings, lambda _: None) if probe else []
    report = found.as_dict()
    if probe:
        report["probes"] = [card.as_dict() for card in cards]
    print(dumps(report, indent=2, ensure_ascii=False))
    return _exit_code(found, cards)


def _as_tables(settings: Settings, probe: bool) -> int:
    from rich.console import Console

    from cloche.doctor.survey import survey

    console, progress = Console(highlight=False), Console(stderr=True, highlight=False)
    with progress.status("Looking around …") as status:
        found = survey(settings, lambda what: status.update(f"{what} …"))
    cards: list[Scorecard] = []
    for table in (_checks_table(found), _walls_table(found)):
        console.print(table)
        console.print()
    if probe and found.can_run:
        cards = _attack_with_progress(found, settings, progress)
        for card in cards:
            console.print(_score_table(card))
            console.print()
    console.print(_verdict(found, cards))
    return _exit_code(found, cards)


def _attack(found: Survey, settings: Settings, report: Callable[[Finding], None]) -> list[Scorecard]:
    """Attack each wall that started sandboxes on this host; returns a scorecard for each."""
    from cloche.blocking.walls import registry
    from cloche.doctor.probes import attack_separately

    return [attack_separately(registry.find(wall.name), settings, report) for wall in _attackable(found)]


def _attackable(found: Survey) -> list[WallState]:
    return [wall for wall in found.walls if wall.available and wall.first_s is not None]


def _attack_with_progress(found: Survey, settings: Settings, console: Console) -> list[Scorecard]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from cloche.doctor.attacks import PROBES

    columns = (TextColumn("Attacking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(PROBES) * len(_attackable(found)))
        return _attack(found, settings, lambda done: progress.update(task, advance=1, description=done.name))


def _exit_code(found: Survey, cards: list[Scorecard]) -> int:
    if not found.can_run:
        return CANNOT_RUN
    return NOT_HELD if any(card.broken for card in cards) else 0


def _checks_table(found: Survey) -> Table:
    table = _table("This host")
    for check in found.checks:
        table.add_row(_sign(check.state), check.name, _words(check.meaning, check.remedy))
    return table


def _walls_table(found: Survey) -> Table:
    table = _table("Walls")
    for wall in found.walls:
        if wall.available and wall.first_s is not None and wall.next_s is not None:
            first, following = f"{wall.first_s * 1000:.0f} ms", f"{wall.next_s * 1000:.0f} ms"
            words = _words(f"available: the first print(1) took {first}, the next {following}")
            table.add_row(_sign("ok"), wall.name, words)
        elif wall.available or wall.reason == "not configured":
            table.add_row(
                _sign("ok" if wall.available else "not configured"), wall.name, _words(wall.reason, wall.hint)
            )
        else:
            table.add_row(_sign("missing"), wall.name, _words(f"not available: {wall.reason}", wall.hint))
    return table


def _score_table(card: Scorecard) -> Table:
    table = _table(f"Probes against the {card.wall}")
    for finding in card.findings:
        detail = finding.detail if len(finding.detail) <= _DETAIL else finding.detail[:_DETAIL] + " …"
        verdict = "" if finding.verdict == "held" else f"{finding.verdict}: "
        table.add_row(_sign(finding.verdict), finding.row, _words(finding.name, f"{verdict}{detail}"))
    return table


def _verdict(found: Survey, cards: list[Scorecard]) -> Text:
    """The last sentence: whether Cloche can run here, and if not, what to do first."""
    from rich.text import Text

    if not found.can_run:
        missing = [check for check in found.checks if check.state == "missing" and check.remedy]
        todo = f" First: {missing[0].name}. {missing[0].remedy}" if missing else " The reason is above."
        return Text(f"Cloche cannot run here.{todo}", style="bold red")
    findings = [finding for card in cards for finding in card.findings]
    broken = sum(len(card.broken) for card in cards)
    untried = sum(finding.verdict == "could not be tried" for finding in findings)
    if broken:
        return Text(f"Cloche can run here, but {broken} of {len(findings)} probes got through.", style="bold red")
    weaker = sum(check.state == "weaker" for check in found.checks)
    text = "Cloche can run here."
    if weaker:
        text = f"Cloche can run here; {weaker} {'thing is' if weaker == 1 else 'things are'} weaker than could be."
    if cards:
        held = f"{len(findings) - untried} of {len(findings)}" if untried else f"All {len(findings)}"
        text += f" {held} probes were held."
    return Text(text, style="bold green")


def _table(title: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _sign(state: str) -> Text:
    from rich.text import Text

    sign, style = _SIGNS[state]
    return Text(sign, style=style)


def _words(meaning: str, more: str = "") -> Text:
    # Text and not markup: hostile programs printed some of it.
    from rich.text import Text

    text = Text(meaning)
    if more:
        text.append(f"\n{more}", style="dim")
    return text
