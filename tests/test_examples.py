"""Every example in the documentation runs as printed, or its label says that it does not.

`docs/README.md` has the rule.  `console` and `python` blocks run; the lines after a command, and the comment behind a
`print`, are what they print, where … stands for anything.  The commands of `sh` blocks change the reader's machine or
take long, so they are only parsed.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.conftest import Server

from cloche.cli.main import COMMANDS, parser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    path
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/*.md")])
    if path.parent.name != "decisions"
]
RUN = ("console", "python")
NOT_RUN = ("sh", "py", "text", "json", "toml", "js", "dockerfile")
# What the examples name: files in the folder where they run, and names of Python.
FILES = {
    "sales.csv": "city,total\nBerlin,3\n",
    "report.py": "print(open('data/sales.csv').read())",
    "train.py": "import os; print(os.listdir('data/in'))",
    "agent.py": "import os; assert os.environ['E2B_API_URL']",
    "data/numbers.csv": "1\n",
}


def blocks(path: Path, label: str) -> list[str]:
    return re.findall(rf"^```{label}\n(.*?)^```", path.read_text(), re.M | re.S)


def pages_with(label: str) -> list[Path]:
    return [path for path in PAGES if blocks(path, label)]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_says_whether_it_runs(path: Path) -> None:
    labels = re.findall(r"^```(\w*)\n.*?^```$", path.read_text(), re.M | re.S)
    assert set(labels) <= {*RUN, *NOT_RUN}


def test_the_rule_is_on_the_first_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    for label in (*RUN, "sh", "py", "text"):
        assert f"`{label}`" in text


@pytest.mark.parametrize("path", pages_with("sh"), ids=name_of)
def test_commands_that_are_not_run_are_at_least_valid(path: Path) -> None:
    for block in blocks(path, "sh"):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            words = shlex.split(line.removeprefix("$ ").removeprefix("# "), comments=True)
            places = [place for place, word in enumerate(words) if word.rpartition("/")[2] == "cloche"]
            for place in places:
                if words[place + 1 : place + 2] and words[place + 1] in COMMANDS:
                    parser(words[place + 1 :]).parse_args(words[place + 1 :])


@pytest.fixture(scope="module")
def surroundings(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The folder and the environment of a reader, who has a server on this host."""
    folder = tmp_path_factory.mktemp("reader")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    return folder, {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CLOCHE_PORT": str(server.port),
        "CLOCHE_DATA_DIR": str(server.folder / "data"),
    }


@pytest.mark.parametrize("path", pages_with("console"), ids=name_of)
def test_commands_run_as_printed(server: Server, surroundings: tuple[Path, dict[str, str]], path: Path) -> None:
    folder, environment = surroundings
    for block in blocks(path, "console"):
        done_before = ""
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = step.partition("\n")
            command = command.replace(".venv/bin/", "").replace("7500", str(server.port))
            script = f"{done_before}exec 2>&1; {command}"
            done = subprocess.run(
                ["sh", "-c", script],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=90,
                env=environment,
                cwd=folder,
            )
            assert done.returncode == 0 or "echo " in command, f"{command}: {done.stdout}"
            if command.startswith(("export ", "eval ")):
                done_before += f"{command}; "
            if printed:
                assert matches(done.stdout, printed), f"{command} prints\n{done.stdout}"


@pytest.mark.parametrize("path", pages_with("python"), ids=name_of)
def test_python_runs_as_printed(server: Server, surroundings: tuple[Path, dict[str, str]], path: Path) -> None:
    folder, environment = surroundings
    if "CLOCHE_URL" in path.read_text():
        environment = {**environment, "CLOCHE_URL": server.url}
    (folder / "wheel").write_bytes(greeting_wheel())
    begin = "import cloche, builtins; given = {'cloche': cloche, 'wheel': open('wheel', 'rb').read(), 'says': says}"
    for block in blocks(path, "python"):
        code = block.replace("7500", str(server.port)).replace('"cloche_…"', repr(server.key))
        code = re.sub(r"^( *)print\((.*)\)  # (.*)$", lambda found: checked(*found.groups()), code, flags=re.M)
        begin += f"\nexec({code!r}, given)"
    environment = {**environment, "CLOCHE_API_KEY": server.key}
    done = subprocess.run(
        [sys.executable, "-c", f"{_SAYS}\n{begin}"],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_prints_what_it_shows(jail: None) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.strip().splitlines()) <= 12
    (printed,) = blocks(ROOT / "README.md", "text")
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=100)
    assert done.stdout == printed, done.stderr


def test_an_example_that_does_not_print_what_it_shows_is_found() -> None:
    code = "says('4…', 42); says('5', 42)"
    done = subprocess.run([sys.executable, "-c", f"{_SAYS}\n{code}"], capture_output=True, text=True)
    assert "AssertionError: the page shows '5', but '42' is printed" in done.stderr
    assert not matches("one\nthree\n", "one\ntwo\n")
    assert matches("one\nthree\n", "one\nt…e\n")


_SAYS = """
import re
def says(shown, *values):
    printed = " ".join(map(str, values)).rstrip("\\n")
    pattern = ".*".join(map(re.escape, shown.split("…")))
    assert re.fullmatch(pattern, printed, re.S), f"the page shows {shown!r}, but {printed!r} is printed"
"""


def checked(indent: str, arguments: str, shown: str) -> str:
    return f"{indent}says({shown!r}, {arguments})"


def matches(printed: str, shown: str) -> bool:
    """Compare outputs; columns may have other widths."""
    texts = [re.sub(" {2,}", "  ", text.rstrip("\n")) for text in (shown, printed)]
    return re.fullmatch(".*".join(map(re.escape, texts[0].split("…"))), texts[1], re.S) is not None


def greeting_wheel() -> bytes:
    """The wheel of docs/packages.md."""
    data, about = io.BytesIO(), "greeting-1.0.dist-info"
    with zipfile.ZipFile(data, "w") as wheel:
        wheel.writestr("greeting.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return data.getvalue()
