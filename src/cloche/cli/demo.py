"""`cloche demo`: what it is, in five runs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_SCENES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    (
        "A program, in a sandbox of its own",
        "python",
        'import sys\nprint("Hello from Python", sys.version.split()[0])',
        {},
    ),
    (
        "Libraries are there already",
        "python",
        "import pandas as pd\n"
        'df = pd.DataFrame({"city": ["Oslo", "Rome", "Cairo"], "july": [18, 27, 35]})\n'
        'print(df.to_string(index=False)); print("mean:", round(df.july.mean(), 1))',
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


def add(commands: Any, shape: dict[str, Any]) -> None:
    """The command's options: none."""
    commands.add_parser(
        "demo", help="a short demonstration", description="Shows what Cloche does, in a few runs.", **shape
    )


def main(_arguments: argparse.Namespace) -> int:
    """Show it."""
    from rich.console import Console
    from rich.syntax import Syntax
    from rich.text import Text

    import cloche

    console = Console()
    with console.status("Warming up: importing pandas and Matplotlib once, for every sandbox to come …"):
        cloche.warm_up()
    for title, language, code, limits in _SCENES:
        console.rule(f"[bold]{title}", align="left")
        console.print(Syntax(code, language, background_color="default"))
        result = cloche.run(code, language=language, **limits)
        console.print(Text((result.stdout + result.stderr).rstrip(), style="green" if result.ok else "yellow"))
        if result.error is not None:
            console.print(f"[bold red]{result.error.kind}[/]  {result.error.hint}")
        memory = result.memory_peak / (1 << 20)
        console.print(
            f"[dim]exit {result.exit_code} · {result.duration * 1000:.1f} ms · {memory:.1f} MB · {result.wall}"
        )
    console.rule(align="left")
    console.print(
        "Try it:  [bold].venv/bin/cloche run -c 'print(6*7)' --stats[/]   and   [bold].venv/bin/cloche doctor[/]"
    )
    return 0
