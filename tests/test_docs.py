"""What the documentation says is so: names, options, files and examples are compared with the code."""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Server

import cloche
from cloche.blocking.sandbox.commands import Commands
from cloche.blocking.sandbox.files import Files, Watch
from cloche.blocking.sandbox.processes import Process
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.cli.main import COMMANDS, parser
from cloche.configuration import FIELDS, default_text, flag_of, value_text, variable_of
from cloche.model.history import Best, Candidate, Moment, Restored
from cloche.model.limits import Limits
from cloche.model.result import KINDS, Artifact, Display, Error, Log, Result, ToolCall, Usage

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text()


def code_spans(text: str) -> str:
    """All that is in backticks, blocks included."""
    return "\n".join(re.findall(r"```.*?```|`(?:[^`\n]|\n(?!\n))+`", text, re.S))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


# What the code can list


@pytest.mark.parametrize("name", cloche.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"\b{name}\b", code_spans(page("docs/api.md"))), f"docs/api.md does not mention `{name}`"


@pytest.mark.parametrize("kind", [Sandbox, Commands, Files, Process, Watch])
def test_every_public_method_is_in_the_reference(kind: type) -> None:
    spans = code_spans(page("docs/api.md"))
    missing = [name for name in vars(kind) if not name.startswith("_") and not re.search(rf"\b{name}\b", spans)]
    assert not missing, f"docs/api.md does not mention {missing} of {kind.__name__}"


@pytest.mark.parametrize(
    "kind", [Result, Error, Usage, Limits, Display, Log, Artifact, ToolCall, Best, Candidate, Moment, Restored]
)
def test_every_field_of_what_is_returned_is_in_the_reference(kind: type) -> None:
    spans = code_spans(page("docs/api.md"))
    fields = kind._fields  # type: ignore[attr-defined]
    missing = [name for name in fields if not re.search(rf"\b{name}\b", spans)]
    assert not missing, f"docs/api.md does not mention {missing} of {kind.__name__}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_kind_has_a_row(kind: str) -> None:
    assert re.search(rf"^\| `{kind}` \| .+ \|", page("docs/api.md"), re.M)


def test_no_error_kind_is_invented() -> None:
    section = page("docs/api.md").split("## Error kinds")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.M)) == set(KINDS)


def options() -> list[tuple[str, str]]:
    top = parser(["--help"])
    found = [("cloche", name) for action in top._actions for name in action.option_strings]
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, below in action.choices.items():
                found += [(command, name) for option in below._actions for name in option.option_strings]
    return found


def test_every_option_is_described_with_its_command() -> None:
    text = page("docs/cli.md")
    sections = {name: text.split(f"## `cloche {name}`")[1].split("\n## ")[0] for name in COMMANDS}
    for command, option in options():
        if option not in ("-h", "--help"):
            section = sections.get(command, text)
            # A command that takes the server's settings says so; they are told once.
            spans = code_spans(section + (page("docs/settings.md") if "settings.md#the-server" in section else ""))
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", spans), f"`cloche {command} {option}` is not described"


def settings_table() -> str:
    """The table of settings as src/cloche/settings.py tells it."""
    tree = ast.parse(page("src/cloche/settings.py"))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Settings")
    rows = ["| variable | field | default | meaning |", "|---|---|---|---|"]
    for field, why in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            assert isinstance(why, ast.Expr), f"the setting {field.target.id} has no reason"
            assert isinstance(why.value, ast.Constant)
            assert field.value is not None
            meaning = " ".join(str(why.value.value).split())
            named = re.match(r"(CLOCHE_\w+): ", meaning)
            variable = f"`{named[1]}`" if named else ""
            meaning = meaning[named.end() :] if named else meaning
            default = ast.unparse(field.value)
            rows.append(f"| {variable} | `{field.target.id}` | `{default}` | {meaning[:1].upper()}{meaning[1:]} |")
    return "\n".join(rows)


def test_the_settings_are_those_of_the_code() -> None:
    assert settings_table() in page("docs/settings.md"), f"docs/settings.md should have\n\n{settings_table()}\n"


def configuration_table() -> str:
    """The table of the server's settings as src/cloche/configuration.py tells it."""
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


def test_the_servers_settings_are_those_of_the_code() -> None:
    assert configuration_table() in page("docs/settings.md"), (
        f"docs/settings.md should have\n\n{configuration_table()}\n"
    )


def test_no_variable_is_read_that_is_not_a_setting() -> None:
    for file in (ROOT / "src" / "cloche").rglob("*.py"):
        if file.name not in ("settings.py", "configuration.py"):
            read = re.findall(r"""environ(?:\.get\(|\[)["'](CLOCHE_\w+)""", file.read_text())
            assert not read, f"{file} reads {read}: settings.py and configuration.py alone read the environment"


# What the pages name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    text = path.read_text()
    named = re.findall(r"`((?:src|tests|docs|scripts|bench)/[^`\s:]*)", text)
    missing = [name for name in named if not (ROOT / name).exists()]
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing += [link for link in links if link and not (path.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_make_target_that_a_page_names_exists(path: Path) -> None:
    targets = set(re.findall(r"^(\w+):", page("Makefile"), re.M))
    named = re.findall(r"(?:`|^\$ |; |&& )make ([a-z]+(?: [a-z]+)*)", path.read_text(), re.M)
    assert {word for words in named for word in words.split()} <= targets


@pytest.mark.parametrize("row", [*(f"T{n}" for n in range(1, 16)), "T20", "T40", "T41"])
def test_every_threat_to_the_jail_has_a_test(row: str) -> None:
    found = re.search(rf"^\| {row} \| .*\| (.*) \|$", page("docs/security.md"), re.M)
    assert found is not None
    assert "`tests/" in found[1]


def test_every_decision_says_what_over_what_why_and_what_it_costs() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.name[:4] for path in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for path in pages:
        headings = re.findall(r"^## (.+)$", path.read_text(), re.M)
        assert headings == ["What we chose", "Over what", "Why", "What it costs"], path.name


# What the pages show


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_example_runs_as_printed(jail: None) -> None:
    (example,) = blocks(page("README.md"), "python")
    assert len(example.strip().splitlines()) <= 12
    (printed,) = [text for text in blocks(page("README.md"), "text") if "42" in text]
    assert run_python(example) == printed


def test_the_readme_commands_run_as_printed(jail: None) -> None:
    (session,) = [text for text in blocks(page("README.md"), "console") if ".venv/bin/cloche run" in text]
    folder = os.path.dirname(sys.executable)
    for step in re.split(r"^\$ ", session, flags=re.M)[1:]:
        command, _, printed = step.partition("\n")
        command = command.replace(".venv/bin/", f"{folder}/")
        done = subprocess.run(["sh", "-c", f"exec 2>&1; {command}"], capture_output=True, text=True, timeout=60)
        assert done.stdout == printed, command


@pytest.mark.parametrize("name", ["README.md", "docs/http.md"])
def test_the_request_is_answered_as_printed(server: Server, name: str) -> None:
    (session,) = [text for text in blocks(page(name), "console") if "curl" in text]
    command = "\n".join(line[2:] for line in session.splitlines() if line.startswith("$ "))
    command = command.replace(".venv/bin/", f"{os.path.dirname(sys.executable)}/").replace("7500", str(server.port))
    environment = {**os.environ, "CLOCHE_DATA_DIR": str(server.folder / "data")}
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, env=environment)
    printed = session.splitlines()[-1]
    assert printed.endswith("…}")
    assert done.stdout.startswith(printed.removesuffix("…}")), done.stderr


@pytest.mark.parametrize("name", ["docs/api.md", "docs/sessions.md"])
def test_the_examples_of_a_page_run(jail: None, name: str) -> None:
    examples = blocks(page(name), "python")
    assert examples
    run_python("\n".join(f"exec({example!r}, {{'__name__': '__main__'}})" for example in examples))
