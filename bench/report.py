"""The report: a row for each promised or interesting figure, with its limit and whether the limit holds."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass

from bench import languages
from bench.load import MEMORY_MB, RATIO, WORST_MS
from bench.load_attacks import ATTACKS as LOADS
from bench.measures import BURST, FILE_MB, GROWTH_RUNS, IN_FLIGHT, Samples
from bench.neighbours import ATTACKS
from bench.server import CLIENTS, UPLOAD_MB
from bench.sessions import ARRAY_MB
from bench.work import OUTPUT_MB

Pick = Callable[[list[float]], float]


def best_tenth(values: list[float]) -> float:
    """Return the best tenth, for work that nothing can speed up and any other program slows down."""
    return statistics.mean(sorted(values)[: max(1, len(values) // 10)])


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[round(0.99 * (len(values) - 1))]


@dataclass(frozen=True)
class Row:
    """A row of the table: one side of a contest, compared with another, or with none (`other` is empty)."""

    work: str
    contest: str
    side: str
    other: str = ""
    limit: float | None = None  # of the ratio, or of the figure itself if there is no other side
    at_least: bool = False
    unit: str = "ms"
    pick: Pick = statistics.median
    over: bool = False  # the limit is on the difference to the other side, not on the ratio


@dataclass(frozen=True)
class Outcome:
    """A row with its figures."""

    work: str
    figure: str
    other: str
    ratio: float | None  # or the difference, if `over`
    limit: str
    verdict: str  # "holds", "MISSED", "not measured", or empty if there is no limit
    note: str = ""


def _rows_of_load(name: str, words: str) -> tuple[Row, ...]:
    return (
        Row(f"health while {words}", "load health", name, "rest", RATIO),
        Row("the longest of these", "load health", name, "", WORST_MS, pick=max),
        Row(f"a neighbour's run while {words}", "load run", name, "rest", RATIO),
        Row("the longest of these", "load run", name, "", WORST_MS, pick=max),
        Row("memory that the server takes meanwhile", "load memory", name, "", MEMORY_MB, unit="MB"),
    )


ROWS = (
    Row("print(1), warm pool", "hello", "cloche", "bare", 0.3),
    Row("print(1), pool off", "hello", "cold", "bare", 1.0),
    Row("cloche run -c 'print(1)', nothing running", "hello", "cli", "bare", 4.0),
    Row("pandas describe(), fresh sandbox", "pandas", "cloche", "bare", 0.05),
    Row("Matplotlib chart to PNG, fresh sandbox", "chart", "cloche", "bare", 0.2),
    Row(f"{BURST} x print(1), {IN_FLIGHT} in flight", "burst", "cloche", "bare", 1.0, at_least=True, unit="runs/s"),
    Row("the same against docker run", "burst", "cloche", "docker", 20.0, at_least=True, unit="runs/s"),
    Row("memory of one more idle sandbox, fresh", "memory", "fresh", "", 10.0, unit="MB"),
    Row("memory of one more session that has used pandas", "memory", "pandas", unit="MB"),
    Row("CPU-bound loop (best tenth)", "loop", "cloche", "bare", 1.02, pick=best_tenth),
    Row("NumPy matmul (best tenth)", "matmul", "cloche", "bare", 1.02, pick=best_tenth),
    Row("Sandbox.close, until nothing is left", "box", "close"),
    Row('commands.run("true")', "box", "command"),
    Row(f"files.write of {FILE_MB} MB", "box", "write"),
    Row(f"files.read of {FILE_MB} MB", "box", "read"),
    Row(f"{OUTPUT_MB} MB of output", "output", "cloche", "bare"),
    Row(f"memory gained by the engine in {GROWTH_RUNS} runs", "growth", "cloche", unit="MB"),
    Row("x += 1; x in a live session", "turn", "cloche", "jupyter", 0.2),
    Row("the same, a checkpoint before each run", "turn", "undo", "jupyter"),
    Row("first run of a new session, pandas used", "first", "cloche", "jupyter", 0.05),
    Row(f"checkpoint with {ARRAY_MB} MB in variables", "undo", "checkpoint", "", 30.0),
    Row(f"restore with {ARRAY_MB} MB in variables", "undo", "restore", "", 60.0),
    Row("memory that such a checkpoint takes", "undo", "memory", unit="MB"),
    Row("branch() to its first result, against a new context", "branch", "branch", "context", 3.0),
    Row(f"{OUTPUT_MB} MB of output, streamed", "stream", "cloche", "", 200.0, at_least=True, unit="MB/s"),
    Row("memory that the engine takes meanwhile", "stream", "memory", unit="MB"),
    Row("POST /v1/run print(1), over the embedded call", "served run", "http", "embedded", 3.0, over=True),
    Row("a session's turn over HTTP, over the embedded", "served turn", "http", "embedded", 2.0, over=True),
    Row("a session's turn over WebSocket, over the embedded", "served turn", "websocket", "embedded", 1.0, over=True),
    Row(f"{CLIENTS} clients, one-shot runs", "served burst", "http", "embedded", 0.7, at_least=True, unit="runs/s"),
    Row(f"upload of {UPLOAD_MB} MB", "served files", "upload", "", 300.0, at_least=True, unit="MB/s"),
    Row(f"download of {UPLOAD_MB} MB", "served files", "download", "", 300.0, at_least=True, unit="MB/s"),
    Row("memory that the server takes more for both", "served files", "memory", "", 16.0, unit="MB"),
    Row("opening a sandbox with a network policy, over one without", "network open", "policy", "none", 2.0, over=True),
    Row("an allowed connection, over the same from the host", "network connection", "cloche", "host", 0.5, over=True),
    Row("a refused connection until the refusal (99th percentile)", "network refusal", "cloche", "", 10.0, pick=p99),
    Row("throughput of one connection", "network transfer", "cloche", "", 1000.0, at_least=True, unit="MB/s"),
    Row("the same, beside one from the host", "network transfer", "cloche", "host", unit="MB/s"),
    Row("replacing a network policy", "network replace", "cloche", "", 50.0),
    Row("pip install in a live session, layer present", "packages session", "cloche", "", 150.0),
    Row("packages= at creation, layer present, over none", "packages creation", "packages", "none", 30.0, over=True),
    Row("packages= from the index, nothing cached, beside uv", "packages index", "cloche", "uv", 1.5),
    Row("first cell in an environment of one's own", "packages environment", "own", "default", 1.3),
    Row("E2B's client: Sandbox.create() to its first result", "e2b first", "cloche", "", 60.0),
    Row("of that, the client's own share", "e2b first", "nothing"),
    Row("E2B's client: a turn", "e2b turn", "cloche", "", 8.0),
    Row("of that, the client's own share", "e2b turn", "nothing"),
    Row("E2B's client: 20 sandboxes at once", "e2b many", "cloche", "", 1000.0),
    Row("of that, the client's own share", "e2b many", "nothing"),
    *(Row(f"a turn while a neighbour exceeds: {name}", "neighbour", name, "alone", 2.0) for name in ATTACKS),
    *(row for name, words in LOADS.items() for row in _rows_of_load(name, words)),
    *(
        Row(f"hello in {title}", languages.contest(name), "cloche", "bare", languages.LIMITS.get(name))
        for name, title in languages.TITLES.items()
    ),
)


def outcomes(samples: Samples, contests: set[str]) -> list[Outcome]:
    """Compute the wanted rows of the table."""
    return [_outcome(row, samples) for row in ROWS if row.contest in contests]


def _outcome(row: Row, samples: Samples) -> Outcome:
    ours, theirs = samples.of(row.contest, row.side), samples.of(row.contest, row.other)
    ratio = row.pick(ours) / row.pick(theirs) if ours and theirs else None
    scale = 1e3 if row.unit == "ms" else 1.0
    if row.over and ratio is not None:
        ratio = (row.pick(ours) - row.pick(theirs)) * scale
    measured = ratio if row.other else (row.pick(ours) * scale if ours else None)
    sides = (row.side, row.other) if row.other else (row.side,)
    reasons = [reason for side in sides if (reason := samples.why_not(row.contest, side))]
    verdict, limit = "", ""
    if row.limit is not None:
        bound = (
            f"+{row.limit:g} {row.unit}" if row.over else f"{row.limit:g}" if row.other else f"{row.limit:g} {row.unit}"
        )
        limit = f"{'>=' if row.at_least else '<='} {bound}"
        verdict = "not measured"
        if measured is not None and not reasons:
            verdict = "holds" if (measured >= row.limit if row.at_least else measured <= row.limit) else "MISSED"
    return Outcome(
        work=row.work,
        figure=_figure(ours, row),
        other=f"{_figure(theirs, row)} {row.other}" if theirs else "",
        ratio=ratio,
        limit=limit,
        verdict=verdict,
        note="; ".join(reasons),
    )


def _figure(values: list[float], row: Row) -> str:
    """Format a figure as middle (10th to 90th percentile) and unit."""
    if not values:
        return "-"
    scale = 1e3 if row.unit == "ms" else 1.0
    ordered = [value * scale for value in sorted(values)]
    middle = number(row.pick(ordered))
    if len(ordered) < 3:
        return f"{middle} {row.unit}"
    last = len(ordered) - 1
    return f"{middle} ({number(ordered[int(0.1 * last)])}-{number(ordered[round(0.9 * last)])}) {row.unit}"


def number(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def text(rows: list[Outcome], facts: dict[str, object], run: dict[str, float]) -> str:
    head = ["work", "Cloche", "beside it", "ratio", "limit", ""]
    cells = [[row.work, row.figure, row.other, _compared(row), row.limit, row.verdict] for row in rows]
    limited = [row for row in rows if row.limit]
    count = {verdict: sum(row.verdict == verdict for row in limited) for verdict in ("holds", "MISSED", "not measured")}
    notes = [f"- {row.work}: {row.note}" for row in rows if row.note]
    if run["noisy"] > 0.1 or run["busy_between"] > 0.1 or run["stolen"] > 0.01:
        notes.append("- The machine was busy with other things: take the ratios as a hint, and the rest as noise.")
    parts = [
        f"{facts['cpus']} CPUs ({facts['cpu']}), {facts['memory_gb']} GB, Linux {facts['kernel']}, "
        f"Python {facts['python']}, as {facts['user']}, {facts['date']}",
        table(head, cells),
        "Medians (10th to 90th percentile) of samples taken in turns.  bare: a subprocess of the same Python, with\n"
        "the same libraries in reach; for another language, its own toolchain on this host, with warm caches.\n"
        "A sandbox is cleared away after cloche.run has returned; the burst includes it.",
        f"{run['rounds']:.0f} rounds in {run['seconds']:.0f} s.  Between samples the CPUs were "
        f"{run['busy_between']:.0%} busy, before {run['noisy']:.0%} of them too busy to go on at once;\n"
        f"{run['stolen']:.1%} of the CPU time was stolen.",
        f"Of {len(limited)} limits {count['holds']} hold, {count['MISSED']} are missed, "
        f"{count['not measured']} could not be measured.",
    ]
    return "\n\n".join([*parts, *(["\n".join(["Notes:", *notes])] if notes else [])])


def _compared(row: Outcome) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio:+.2f}" if "+" in row.limit else f"{row.ratio:.3f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format a table in Markdown that is also aligned for a terminal."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [head, *rows]]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def as_json(
    rows: list[Outcome], facts: dict[str, object], run: dict[str, float], samples: Samples
) -> dict[str, object]:
    """Return the report for programs, with every sample."""
    return {
        "facts": facts,
        "run": run,
        "rows": [asdict(row) for row in rows],
        "samples": samples.figures,
        "missing": samples.missing,
    }
