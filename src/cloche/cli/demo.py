"""`cloche demo`: what it is, in a few programs and a session."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from rich.console import Console

    import cloche

_PROGRAMS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "A program, in a sandbox of its own",
        "python",
        'import sys\nprint("Hello from Python", sys.version.split()[0])',
        {},
    ),
    ("Bash, as nobody, with nothing of this machine in sight", "bash", "id; ls /home/user; ls /root /sys; true", {}),
    (
        "No way out: the network",
        "python",
        'import socket\nsocket.create_connection(("192.0.2.1", 80), timeout=5)',
        {},
    ),
    ("Limits are real: memory", "python", 'data = bytearray(2 << 30)\nprint("never printed")', {"memory": "128M"}),
    ("Limits are real: time", "python", "print('spinning')\nwhile True: pass", {"timeout": 0.5}),
)
_CELLS = (
    (
        "A session keeps its variables, and libraries are there already",
        "python",
        'import pandas as pd\ndf = pd.DataFrame({"city": ["Oslo", "Rome", "Cairo"], "july": [18, 27, 35]}); df',
    ),
    ("Charts come back as pictures and as data", "python", 'df.plot.bar(x="city", y="july", title="July (°C)");'),
    ("JavaScript beside it", "javascript", "const cities = ['Oslo', 'Rome']; cities.map(c => c.length)"),
)
_MISTAKE = "df = df[df.july > 100]; len(df)"


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options: none."""
    commands.add_parser(
        "demo", help="a short demonstration", description="Shows what Cloche does, in a few runs.", **shape
    )


def main(_arguments: argparse.Namespace) -> int:
    """Show it."""
    from rich.console import Console

    import cloche

    console = Console()
    with console.status("Warming up: importing pandas and Matplotlib once, for every sandbox to come …"):
        cloche.warm_up()
    for title, language, code, limits in _PROGRAMS:
        _announce(console, title, language, code)
        _show(console, cloche.run(code, language=language, **limits))
    with cloche.Sandbox() as box:
        for title, language, code in _CELLS:
            _announce(console, title, language, code)
            _show(console, box.run(code, language=language))
        before = box.checkpoint()
        _announce(console, "Undo: a mistake, and back to before it", "python", _MISTAKE)
        _show(console, box.run(_MISTAKE))
        box.restore(before)
        _announce(console, "Restored", "python", "len(df)")
        _show(console, box.run("len(df)"))
    console.rule(align="left")
    console.print(
        "Try it:  [bold].venv/bin/cloche run -c 'print(6*7)' --stats[/]   and   [bold].venv/bin/cloche doctor[/]"
    )
    return 0


def _announce(console: Console, title: str, language: str, code: str) -> None:
    from rich.syntax import Syntax

    console.rule(f"[bold]{title}", align="left")
    console.print(Syntax(code, language, background_color="default"))


def _show(console: Console, result: cloche.Result) -> None:
    from rich.text import Text

    shown = [result.stdout, result.stderr, *(str(display.text) for display in result.results)]
    text = "\n".join(part.rstrip() for part in shown if part.strip())
    if text:
        console.print(Text(text, style="green" if result.ok else "yellow"))
    for display in result.results:
        if display.chart:
            elements = ", ".join(f"{bar['label']} {bar['value']:g}" for bar in display.chart["elements"])
            console.print(f"[cyan]{display.chart['type']} chart “{display.chart['title']}”: {elements}[/]")
            console.print(f"[dim]PNG of {len(display.data('image/png'))} bytes[/]")
    if result.error is not None:
        console.print(f"[bold red]{result.error.kind}[/]  {result.error.hint}")
    memory = result.memory_peak / (1 << 20)
    console.print(f"[dim]exit {result.exit_code} · {result.duration * 1000:.1f} ms · {memory:.1f} MB · {result.wall}")
