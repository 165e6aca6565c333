"""Generates `cloche.blocking` from the asynchronous code: one source, two ways to call it.

python scripts/blocking.py            writes the files
python scripts/blocking.py --check    fails when a file is stale, or when a rule below is never used

`blocking/` mirrors the folders that it is generated from: the twin of `engine/link.py` is `blocking/engine/link.py`.
`blocking/io/` is written by hand, because sockets and locks are what differs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "cloche"
TARGET = SOURCE / "blocking"

# A module in these places gets a twin when it is asynchronous, or when it imports a module that has a twin; and if
# blocking code uses the twin.
PLACES = ("sandbox", "engine", "client", "walls/*.py", "walls/*/wall.py")
BY_HAND = "io"

RULES = [
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
]


def candidates() -> dict[str, str]:
    """The text of each module that may need a twin, by its path below src/cloche."""
    paths = [
        path for place in PLACES for path in (SOURCE.glob(place) if "*" in place else (SOURCE / place).glob("*.py"))
    ]
    return {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(paths)}


def twins(modules: dict[str, str]) -> set[str]:
    """The modules that need a twin."""
    found = {path for path, text in modules.items() if any(re.search(pattern, text) for pattern, _ in RULES)}
    while True:
        importing = {
            path for path in modules.keys() - found if any(re.search(imported(other), modules[path]) for other in found)
        }
        if not importing:
            return found
        found |= importing


def used_twins(modules: dict[str, str], found: set[str]) -> set[str]:
    """The twins that blocking callers reach: those that other code imports, and those that these import."""
    public = re.findall(r'"blocking\.([\w.]+)"', (SOURCE / "__init__.py").read_text())
    names = {f"cloche.{name}" for name in public}
    for path in SOURCE.rglob("*.py"):
        if TARGET not in path.parents or path.parent == TARGET / BY_HAND:
            names |= {name.replace(".blocking", "", 1) for name in imports(path.read_text()) if ".blocking." in name}
    reached: set[str] = set()
    while more := {path for path in found - reached if module(path) in names}:
        reached |= more
        names = {name for path in more for name in imports(modules[path])}
    return reached


def imports(text: str) -> set[str]:
    """The dotted names of all that a module imports, modules or what is in them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def module(path: str) -> str:
    """The dotted name of a file below src/cloche."""
    return "cloche." + path.removesuffix(".py").replace("/", ".")


def imported(path: str) -> str:
    """A pattern for an import of a module: `from cloche.engine.link import …` or `from cloche.engine import link`."""
    package, _, name = module(path).rpartition(".")
    return rf"\b{re.escape(module(path))}\b|\bfrom {re.escape(package)} import {name}\b"


def translate(path: str, text: str, mirrored: set[str], used: set[str]) -> str:
    """The blocking form of a module; notes in `used` the rules that changed something."""
    for other in mirrored:
        text = re.sub(imported(other), lambda match: match[0].replace("cloche.", "cloche.blocking.", 1), text)
    for pattern, replacement in RULES:
        text, count = re.subn(pattern, replacement, text)
        if count:
            used.add(pattern)
    return f"# Generated from src/cloche/{path} by scripts/blocking.py: edit that file instead.\n{text}"


def formatted(texts: dict[str, str]) -> dict[Path, str]:
    """The files as ruff formats them: names are shorter now, so lines may join and imports change places."""
    with TemporaryDirectory() as folder:
        for path, text in texts.items():
            draft = Path(folder, path)
            draft.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(text)
        for arguments in (["check", "--fix-only", "--select", "I"], ["format"]):
            command = [sys.executable, "-m", "ruff", *arguments, "--config", "pyproject.toml", "-q", folder]
            subprocess.run(command, cwd=ROOT, check=True)
        return {TARGET / path: Path(folder, path).read_text() for path in texts}


def packages(paths: set[str]) -> dict[Path, str]:
    """An `__init__.py` for each mirrored folder."""
    folders = {parent for path in paths for parent in Path(path).parents if parent != Path(".")}
    return {
        TARGET / folder / "__init__.py": f'"""Generated from src/cloche/{folder}/ by scripts/blocking.py."""\n'
        for folder in folders
    }


def main() -> int:
    """Write the twins, or check them."""
    modules = candidates()
    paths = used_twins(modules, twins(modules))
    mirrored = paths | {f"{BY_HAND}/{path.name}" for path in (SOURCE / BY_HAND).glob("*.py")}
    used: set[str] = set()
    texts = {path: translate(path, modules[path], mirrored, used) for path in paths}
    if unused := [pattern for pattern, _ in RULES if pattern not in used]:
        print(f"rules that are never used: {unused}", file=sys.stderr)
        return 1
    wanted = {**formatted(texts), **packages(paths)}
    by_hand = {TARGET / "__init__.py", *(TARGET / BY_HAND).glob("*.py")}
    present = {path: path.read_text() for path in TARGET.rglob("*.py") if path not in by_hand}
    stale = sorted(path for path in present.keys() | wanted.keys() if present.get(path) != wanted.get(path))
    if "--check" in sys.argv:
        if stale:
            names = ", ".join(str(path.relative_to(TARGET)) for path in stale)
            print(f"stale: {names}; run `python scripts/blocking.py`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
