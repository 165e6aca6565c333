"""Writes the tables of the docs that the code can list: limits, kinds of errors, settings, packages.

.venv/bin/python scripts/docs_tables.py            write them
.venv/bin/python scripts/docs_tables.py --check    only say which are out of date

A table is found by its first line, which no other table of its page has.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

from cloche.cli.run import OPTIONS
from cloche.configuration import FIELDS, default_text, flag_of, value_text, variable_of
from cloche.model.kinds import KINDS
from cloche.model.limits import LIMITS

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / "src/cloche/environment"


def limits_table() -> str:
    """The arguments of the library."""
    rows = ["| argument | default | bounds | what it limits | field of `Limits` |", "|---|---|---|---|---|"]
    for row in LIMITS:
        default = f'`"{row.default}"`' if isinstance(row.default, str) else row.default
        none = ", or `None`" if row.unit == "seconds" else ""
        bounds = f"{row.shown(row.low).removesuffix(f' {row.unit}')} to {row.shown(row.high)}{none}"
        rows.append(f"| `{row.name}` | {default} | {bounds} | {row.help} | `{row.field}` |")
    return "\n".join(rows)


def options_table() -> str:
    """The options of `cloche run` that set a limit."""
    rows = ["| limit | default | meaning |", "|---|---|---|"]
    for row in LIMITS:
        option = row.name.replace("_", "-")
        rows.append(f"| `--{option}` {OPTIONS[option][1]} | {row.default} | {row.help} |")
    return "\n".join(rows)


def kinds_table() -> str:
    """The kinds of errors."""
    rows = ["| kind | when | the hint says |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| `{row.name}` | {row.meaning} | {row.hint} |" for row in KINDS.values())])


def settings_table() -> str:
    """The engine's settings; their meaning is the text below each in the source."""
    tree = ast.parse((ROOT / "src/cloche/settings.py").read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    rows = ["| variable | field | default | meaning |", "|---|---|---|---|"]
    for field, why in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(why, ast.Expr), f"the setting {field.target.id} has no text below it"
            assert isinstance(why.value, ast.Constant)
            assert field.value is not None
            meaning = " ".join(str(why.value.value).split())
            named = re.match(r"(CLOCHE_\w+): ", meaning)
            variable = f"`{named[1]}`" if named else ""
            meaning = meaning[named.end() :] if named else meaning
            default = ast.unparse(field.value)
            rows.append(f"| {variable} | `{field.target.id}` | `{default}` | {meaning[:1].upper()}{meaning[1:]} |")
    return "\n".join(rows)


def configuration_table() -> str:
    """The server's settings."""
    rows = ["| setting | variable | option | default | can be | meaning |", "|---|---|---|---|---|---|"]
    for name, declared in FIELDS.items():
        about = declared.metadata
        flag = f"--no-{name}" if declared.default is True else flag_of(name)
        values = ", ".join(about.get("choices", ()))
        if "low" in about:
            values = f"{value_text(name, about['low'])} to {value_text(name, about['high'])}"
        meaning = re.sub(r"<(\w+)>", r"&lt;\1&gt;", about["meaning"])
        values = values or about["kind"].name
        rows.append(f"| `{name}` | `{variable_of(name)}` | `{flag}` | {default_text(name)} | {values} | {meaning} |")
    return "\n".join(rows)


def reasons_of_python_packages() -> dict[str, tuple[str, str]]:
    """The size in MB and the reason of each package that has a comment with both in packages.in."""
    lines = (ENVIRONMENT / "packages.in").read_text().splitlines()
    found = [re.match(r"([a-z0-9-]+)\S* # ([\d.]+) MB: (.+)", line) for line in lines]
    return {each[1]: (each[2], each[3]) for each in found if each}


def reasons_of_node_packages() -> dict[str, tuple[str, str]]:
    """The same for package.json, where npm leaves the section `reasons` to us."""
    reasons: dict[str, str] = json.loads((ENVIRONMENT / "package.json").read_text())["reasons"]
    parts = {name: text.partition(" MB: ") for name, text in reasons.items()}
    return {name: (size, reason) for name, (size, _, reason) in parts.items()}


def python_packages_table() -> str:
    """The Python packages that are in the environment by request, with the versions of the lock."""
    versions = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", (ENVIRONMENT / "packages.lock").read_text()))
    return _packages_table("Python package", reasons_of_python_packages(), versions)


def node_packages_table() -> str:
    """The same for Node; package.json has exact versions."""
    versions = json.loads((ENVIRONMENT / "package.json").read_text())["dependencies"]
    return _packages_table("Node package", reasons_of_node_packages(), versions)


def _packages_table(title: str, reasons: dict[str, tuple[str, str]], versions: dict[str, str]) -> str:
    rows = [f"| {title} | version | MB | why it is there |", "|---|---|---|---|"]
    for name, (size, reason) in sorted(reasons.items()):
        rows.append(f"| `{name}` | {versions[name]} | {size} | {reason} |")
    return "\n".join(rows)


TABLES = (
    ("docs/api.md", limits_table),
    ("docs/api.md", kinds_table),
    ("docs/cli.md", options_table),
    ("docs/settings.md", settings_table),
    ("docs/settings.md", configuration_table),
    ("docs/packages.md", python_packages_table),
    ("docs/packages.md", node_packages_table),
)


def updated(text: str, table: str) -> str:
    """A page with this table in place of the one that begins with the same line."""
    head = table.partition("\n")[0]
    before, found, rest = text.partition(f"{head}\n")
    assert found, f"no table of the page begins with {head!r}"
    _, end, after = rest.partition("\n\n")
    return f"{before}{table}\n{end[1:]}{after}"


def main() -> int:
    stale = []
    for name, table in TABLES:
        path = ROOT / name
        text = path.read_text()
        new = updated(text, table())
        if new != text:
            stale.append(f"{name}: {table.__name__}")
            if "--check" not in sys.argv:
                path.write_text(new)
    print("\n".join(stale) or "All tables are up to date.")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
