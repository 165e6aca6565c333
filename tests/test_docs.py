"""What the documentation says is so: names, options, files and examples are compared with the code."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


from scripts.docs_tables import TABLES

import cloche
from cloche.blocking.sandbox.commands import Commands
from cloche.blocking.sandbox.files import Files, Watch
from cloche.blocking.sandbox.processes import Process
from cloche.blocking.sandbox.sandbox import Sandbox
from cloche.cli.main import COMMANDS, parser
from cloche.model.history import Best, Candidate, Moment, Restored
from cloche.model.kinds import KINDS
from cloche.model.limits import Limits
from cloche.model.result import Artifact, Display, Error, Log, Result, ToolCall, Usage

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


@pytest.mark.parametrize(("name", "table"), TABLES, ids=lambda each: getattr(each, "__name__", None))
def test_the_tables_are_those_of_the_code(name: str, table: Callable[[], str]) -> None:
    assert f"{table()}\n\n" in f"{page(name)}\n\n", f"{name} is out of date: run scripts/docs_tables.py"


def test_every_exit_code_of_an_error_kind_is_described() -> None:
    codes = {row.exit_code for row in KINDS.values()} - {None}
    assert codes <= {int(code) for code in re.findall(r"^\| (\d+) \|", page("docs/cli.md"), re.M)}


@pytest.mark.parametrize("name", ["run", "Sandbox"])
def test_the_reference_shows_the_signature(name: str) -> None:
    (shown,) = re.findall(rf"^cloche\.{name}(\(.*?^ .*?\))(?: ->.*)?$", page("docs/api.md"), re.M | re.S)
    function = ast.parse(f"def f{shown}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    defaults = dict(zip((each.arg for each in arguments.args), arguments.defaults, strict=True))
    defaults |= {
        each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value
    }
    called = cloche.Sandbox.__init__ if name == "Sandbox" else cloche.run
    parameters = inspect.signature(called).parameters.values()
    assert {name: ast.literal_eval(value) for name, value in defaults.items()} == {
        each.name: each.default for each in parameters if each.name != "self"
    }


def test_no_variable_is_read_that_is_not_a_setting() -> None:
    for file in (ROOT / "src" / "cloche").rglob("*.py"):
        # Kernels run in a sandbox, and read its environment.
        if file.name not in ("settings.py", "configuration.py") and file.parent.name != "kernels":
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


def test_every_page_is_in_the_index() -> None:
    index = page("docs/README.md")
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)\)", index)}
    pages = {path for path in PAGES if path.is_relative_to(ROOT / "docs") and path.parent.name != "decisions"}
    assert pages - linked == {ROOT / "docs" / "README.md"}


def test_the_readme_shows_figures_that_the_performance_page_has() -> None:
    """The comparison is copied by hand, so a new run of the benchmark must change both pages."""
    rows = {
        "print(1), warm pool": ("4.7 ms", "15.1 ms"),
        "cloche run -c 'print(1)', nothing running": ("62 ms", "15.1 ms"),
        "pandas describe(), fresh sandbox": ("30 ms", "595 ms"),
        "200 x print(1), 8 in flight": ("126 per second", "142 per second"),
        "memory of one more idle sandbox, fresh": ("3.8 MB",),
        "checkpoint with 500 MB in variables": ("27 ms",),
        "restore with 500 MB in variables": ("36 ms",),
    }
    comparison = page("README.md").split("## Why not")[1].split("\n## ")[0]
    for work, shown in rows.items():
        (line,) = re.findall(rf"^\| {re.escape(work)} +\|(.*)$", page("docs/performance.md"), re.M)
        measured = [float(figure) for figure in re.findall(r"([\d.]+) \([\d.]+-[\d.]+\)", line)]
        for text, figure in zip(shown, measured, strict=False):
            number = float(text.split()[0])
            assert text in comparison
            assert abs(number - figure) < 0.02 * figure, f"README.md says {text} for {work!r}, measured were {figure}"
    date = re.search(r"as root, (\d{4}-\d\d-\d\d)", page("docs/performance.md"))
    assert date is not None
    assert date[1] in comparison


def test_every_decision_says_what_over_what_why_and_what_it_costs() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [path.name[:4] for path in pages] == [f"{n:04}" for n in range(1, len(pages) + 1)]
    for path in pages:
        headings = re.findall(r"^## (.+)$", path.read_text(), re.M)
        assert headings == ["What we chose", "Over what", "Why", "What it costs"], path.name
