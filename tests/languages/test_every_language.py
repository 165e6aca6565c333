"""Runs the same programs in every language, with the same outcome.  Other test files are about one language each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.languages.programs import PROGRAMS, RAW
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.languages.detection import detect, known_names
from cloche.languages.entry import choose_entry
from cloche.languages.language import Project

PAGE = Path(__file__).resolve().parents[2] / "docs" / "languages.md"
NAMES = languages.names()
ARGS = ["two words", 'it\'s "quoted"', "", "--help", "naïve ☃ $HOME `x` \\ *"]
STDIN = (b"0123456789abcde\n" * 65536) * 10  # 10 MB

pytestmark = pytest.mark.usefixtures("jail")


def having(part: str) -> list[str]:
    return [name for name in NAMES if getattr(PROGRAMS.get(name), part, None)]


@pytest.mark.parametrize("name", NAMES)
def test_its_hello_says_hello(name: str) -> None:
    language = needs(name)
    result = cloche.run(language.hello, language=name)
    assert result.error is None
    assert f"Hello from {language.title}" in result.stdout
    if "sql" not in name:  # SQL prints a table
        assert result.stdout == f"Hello from {language.title}\n"
    assert (result.stderr, result.exit_code, result.diagnostics) == ("", 0, ())


FLOODS = (
    *("a", "\n", "panic: x\n", " at f line 1", "x at f line ", "while executing\n", "E: m in f:1\n"),
    *("x: y:1: z: Assertion `", "' panicked at ", "thread 'main' panicked at '\n", " ", " in /x"),
)
BEFORE = ("", "PHP Fatal error:  Uncaught ", "thread '", "Fatal error:  ")


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_program_says_is_soon_read(name: str) -> None:
    language = languages.find(name)
    project = Project(entry=f"/sandbox/code/{language.main}", text="x\n")
    for text in (f"{before}{flood * (100_000 // len(flood))}\n\ngoroutine x" for before in BEFORE for flood in FLOODS):
        begin = time.process_time()
        if language.explain is not None:
            language.explain(text)
        if language.diagnose is not None:
            language.diagnose(text, project)
        assert time.process_time() - begin < 1  # this once took minutes, in which a server answered nobody


SOURCES = (
    "a",
    "\n",
    " ",
    "{",
    "(",
    '"',
    "'",
    "`",
    '"\\',
    "'\\",
    "`\\",
    "//",
    "/*",
    "#",
    "@",
    "import a\n",
    "a b c ",
    "\\\n",
)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_program_consists_of_is_soon_looked_at(name: str) -> None:
    language = needs(name)
    found = languages.tools(language)
    assert found is not None
    for part in SOURCES:
        begin = time.process_time()
        language.plan_for(Project(f"/sandbox/code/{language.main}", text=part * (60_000 // len(part)) + "\n"), found)
        assert time.process_time() - begin < 2, part  # this once took minutes, in which a server answered nobody


@pytest.mark.parametrize("name", having("everything"))
def test_arguments_input_output_and_exit_code_are_exact(name: str) -> None:
    needs(name)
    result = cloche.run(PROGRAMS[name].everything, language=name, args=ARGS, stdin=STDIN)
    printed = "".join(f"{word}|" for word in ARGS).encode() + b"\n%d\n" % len(STDIN) + RAW
    assert result.stdout_bytes == printed
    assert result.stdout.endswith("\ufffd\x00\r\n")
    assert result.stderr == "oops\n"
    assert result.exit_code == 3
    assert result.error.kind == "exit"


@pytest.mark.parametrize("name", having("terminated"))
def test_a_signal_is_reported(name: str) -> None:
    needs(name)
    result = cloche.run(PROGRAMS[name].terminated, language=name)
    assert result.exit_code == 128 + 15
    assert result.error.kind == "killed"


@pytest.mark.parametrize("name", having("fails"))
def test_an_uncaught_error_is_reported(name: str) -> None:
    needs(name)
    result = cloche.run(PROGRAMS[name].fails, language=name)
    assert result.error.kind == PROGRAMS[name].failure
    assert "boom" in result.error.message
    assert "boom" in result.stderr
    assert result.error.traceback
    assert result.exit_code != 0


@pytest.mark.parametrize("name", having("broken"))
def test_what_is_no_program_is_a_syntax_error(name: str) -> None:
    needs(name)
    result = cloche.run(PROGRAMS[name].broken, language=name)
    assert result.error.kind == "syntax"
    assert result.error.traceback
    assert result.exit_code != 0
    if PROGRAMS[name].is_compiled:
        first = next(each for each in result.diagnostics if each.severity == "error")
        assert (first.file, first.line) == (languages.find(name).main, 3)
        assert "two" in first.message
        assert result.build_time is not None


@pytest.mark.parametrize("name", having("project"))
def test_a_project_of_several_files_runs(name: str) -> None:
    needs(name)
    files = PROGRAMS[name].project
    result = cloche.run(files=files, language=name)
    assert (result.stdout, result.error) == ("5\n", None)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("python", "sql", "sqlite")])
def test_a_language_is_recognised_by_its_files(name: str) -> None:
    files = list(PROGRAMS[name].project)
    entry = next(file for file in files if file.rpartition("/")[2].lower().startswith("main."))
    assert choose_entry(None, None, files) == (name, entry)


# Definitions, detection and documentation agree


def test_every_language_has_its_programs() -> None:
    assert set(NAMES) <= set(PROGRAMS), "add yours to tests/languages/programs.py"


@pytest.mark.parametrize("name", NAMES)
def test_a_definition_is_whole(name: str) -> None:
    language = languages.find(name)
    assert language.name == name
    assert language.hello.endswith("\n")
    assert language.main.endswith(language.extensions)
    assert language.plan or language.command
    assert language.toolchain is not None
    assert language.toolchain.inside or language.toolchain.apt or language.toolchain.otherwise


def test_no_two_languages_share_a_name_or_an_ending() -> None:
    every = languages.everything()
    for part in ("aliases", "extensions"):
        said = [word for language in every for word in {language.name, *getattr(language, part)}]
        assert sorted(said) == sorted(set(said))


@pytest.mark.parametrize("name", NAMES)
def test_the_detection_knows_what_the_definition_says(name: str) -> None:
    language = languages.find(name)
    for alias in language.aliases:
        assert detect("", label=alias).language == name
    for ending in language.extensions:
        detected = detect("", file=f"program{ending}").language
        assert detected == name or name in known_names.UNDECIDED.get(ending[1:], ())


def table() -> str:
    """Make the table of languages from the definitions."""
    rows = ["| language | names | files | needs | on Debian | sessions |", "|---|---|---|---|---|---|"]
    for language in languages.everything():
        chain = language.toolchain
        assert chain is not None
        names = ", ".join(f"`{word}`" for word in (language.name, *language.aliases))
        files = ", ".join(f"`{ending}`" for ending in language.extensions)
        programs = ", ".join(f"`{program}`" for program in chain.programs) + (f" {chain.least}" if chain.least else "")
        needs = f"`{chain.package or 'python3'}`, which sandboxes have" if chain.inside else programs
        packages = " ".join(f"`{package}`" for package in chain.apt)
        sessions = "yes" if language.kernel is not None else ""
        rows.append(
            f"| [{language.title}](#{anchor(language.title)}) | {names} | {files} | {needs} | {packages} | {sessions} |"
        )
    return "\n".join(rows)


def anchor(title: str) -> str:
    return "c-1" if title == "C++" else title.lower()  # the second heading whose anchor is `c`


def test_the_table_in_the_documentation_is_that_of_the_definitions() -> None:
    text = PAGE.read_text()
    assert table() in text, f"docs/languages.md should have\n\n{table()}\n"
    for language in languages.everything():
        assert f"\n## {language.title}\n" in text, f"docs/languages.md has no section about {language.title}"
