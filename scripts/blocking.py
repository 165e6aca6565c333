"""Generates `cloche.blocking` from the asynchronous code: one source, two ways to call it.

python scripts/blocking.py            writes the files
python scripts/blocking.py --check    fails when they are not what they should be
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "cloche"

# The asynchronous module and its blocking twin; those of `engine/io.py` and `client/io.py` are written by hand.
TWINS = {
    "engine/link.py": "blocking/link.py",
    "engine/commands.py": "blocking/commands.py",
    "engine/calls.py": "blocking/calls.py",
    "engine/transfers.py": "blocking/transfers.py",
    "engine/files.py": "blocking/files.py",
    "engine/ports.py": "blocking/ports.py",
    "engine/box.py": "blocking/box.py",
    "engine/left.py": "blocking/left.py",
    "engine/planning.py": "blocking/planning.py",
    "engine/one_shot.py": "blocking/one_shot.py",
    "engine/cells.py": "blocking/cells.py",
    "engine/contexts.py": "blocking/contexts.py",
    "engine/program_cells.py": "blocking/program_cells.py",
    "engine/tools.py": "blocking/tools.py",
    "engine/checkpoints.py": "blocking/checkpoints.py",
    "engine/attempts.py": "blocking/attempts.py",
    "engine/sandbox.py": "blocking/sandbox.py",
    "engine/default.py": "blocking/default.py",
    "walls/wall.py": "blocking/wall.py",
    "walls/jail/wall.py": "blocking/jail.py",
    "walls/e2b/wall.py": "blocking/e2b.py",
    "client/tls.py": "blocking/remote_tls.py",
    "client/connection.py": "blocking/remote_connection.py",
    "client/server.py": "blocking/remote_server.py",
    "client/feed.py": "blocking/remote_feed.py",
    "client/cells.py": "blocking/remote_cells.py",
    "client/contexts.py": "blocking/remote_contexts.py",
    "client/checkpoints.py": "blocking/remote_checkpoints.py",
    "client/attempts.py": "blocking/remote_attempts.py",
    "client/commands.py": "blocking/remote_commands.py",
    "client/files.py": "blocking/remote_files.py",
    "client/ports.py": "blocking/remote_ports.py",
    "client/sandbox.py": "blocking/remote_sandbox.py",
    "client/one_shot.py": "blocking/remote_one_shot.py",
}
BY_HAND = {"engine/io.py": "blocking/io.py", "client/io.py": "blocking/remote_io.py"}

RULES = [
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
]


def module(path: str) -> str:
    """The dotted name of a file below src/cloche."""
    return "cloche." + path.removesuffix(".py").replace("/", ".")


def translate(source: str, path: str) -> str:
    """The blocking form of an asynchronous module."""
    text = source
    for old, new in {**TWINS, **BY_HAND}.items():
        text = re.sub(rf"\b{re.escape(module(old))}\b", module(new), text)
        # `from cloche.engine import default`
        package, _, name = module(old).rpartition(".")
        new_package, _, new_name = module(new).rpartition(".")
        text = re.sub(
            rf"from {re.escape(package)} import {name}$", f"from {new_package} import {new_name}", text, flags=re.M
        )
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return f"# Generated from {path} by scripts/blocking.py: edit that instead.\n{text}"


def formatted(text: str) -> str:
    """As ruff would write it: names are shorter now, so lines may join and imports change places."""
    for arguments in (["check", "--fix-only", "--select", "I", "-"], ["format", "-"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "src/cloche/blocking/x.py", "-q"],
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        )
        text = done.stdout
    return text


def main() -> int:
    """Write the twins, or check them."""
    stale = []
    for old, new in TWINS.items():
        wanted = formatted(translate((SOURCE / old).read_text(), f"src/cloche/{old}"))
        target = SOURCE / new
        if not target.exists() or target.read_text() != wanted:
            stale.append(new)
            if "--check" not in sys.argv:
                target.write_text(wanted)
    if stale and "--check" in sys.argv:
        print(f"stale: {', '.join(stale)}; run `python scripts/blocking.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
