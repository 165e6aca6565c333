"""Templates: each one runs as it is, is listed, is available over HTTP, and overwrites nothing."""

from __future__ import annotations

import httpx2
import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import templates
from cloche.languages.entry import choose_entry

EXPECTED = {
    "c-make": "count 6\nlow   15\nhalf  37.5\nhigh  40\nmean  29.667\n",
    "cpp-app": "Aix Bar Cup Dol (26 km)\n",
    "go-cli": "   5  the\n   2  rain\n   2  roof\n",
    "java-app": "Ada         36.00\nGrace        8.50\ntotal       44.50\n",
    "node-ts": "! 2024-06-01  Return the books\n  2024-06-20  Water the plants\n2 of 3 to do\n",
    "python-cli": "4 lines, 38 words, 240 characters\n",
    "python-data": "chart: output/turnover.png\n",
    "r-plot": "6 trees, height = 1.92 + 0.26 * girth\n",
    "rust-cli": "1 + 2 * 3 = 7\n(1 + 2) * 3 = 9\n2 * 7 / 4 = 3.5\n",
    "sql-report": "Mary",
}
TESTS = {"node-ts": "src/tests.ts", "python-cli": "tests.py", "python-data": "tests.py"}


def test_every_template_has_its_expected_output() -> None:
    assert templates.names() == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_template_runs_as_it_is(jail: None, name: str) -> None:
    template = templates.find(name)
    needs(template.language)
    result = cloche.run(files=template.files, entry=template.entry)
    assert (result.error, result.stderr) == (None, "")
    assert result.diagnostics == ()
    assert EXPECTED[name] in result.stdout
    if name in ("r-plot", "python-data"):
        assert result.results[0].png


@pytest.mark.parametrize("name", EXPECTED)
def test_its_entry_is_plain(name: str) -> None:
    template = templates.find(name)
    if name != "java-app":  # its entry is below its package's folder
        assert choose_entry(None, None, list(template.files)) == (template.language, template.entry)


@pytest.mark.parametrize("name", TESTS)
def test_its_own_tests_pass(jail: None, name: str) -> None:
    template = templates.find(name)
    needs(template.language)
    result = cloche.run(files=template.files, entry=TESTS[name])
    assert result.error is None


def test_a_template_is_written_with_all_its_files_or_not_at_all(tmp_path) -> None:
    template = templates.find("go-cli")
    written = templates.write(template, tmp_path / "new")
    assert {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*.*")} == {
        *template.files
    }
    assert len(written) == len(template.files)
    assert (tmp_path / "new/go.mod").read_text() == template.files["go.mod"]

    (tmp_path / "half").mkdir()
    (tmp_path / "half/main.go").write_text("mine")
    with pytest.raises(cloche.InvalidRun, match=r"main\.go exists already"):
        templates.write(template, tmp_path / "half")
    assert [path.name for path in (tmp_path / "half").iterdir()] == ["main.go"]
    assert (tmp_path / "half/main.go").read_text() == "mine"


def test_a_dangling_link_is_not_written_through(tmp_path) -> None:
    (tmp_path / "main.go").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(cloche.InvalidRun):
        templates.write(templates.find("go-cli"), tmp_path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("name", ["", "..", "go-cli/", "../templates/go-cli", "GO-CLI", "\0", "__init__.py"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(cloche.Gone, match="There is no template"):
        templates.find(name)


def test_they_come_by_http(http: httpx2.Client) -> None:
    listed = http.get("/v1/templates").json()["items"]
    assert [each["name"] for each in listed] == templates.names()
    assert listed[2]["files"] == sorted(templates.find("go-cli").files)

    answer = http.get("/v1/templates/python-cli").json()
    assert answer == templates.find("python-cli").as_dict()
    body = {"files": answer["files"], "entry": answer["entry"], "args": ["top", "-n", "1", "README.md"]}
    assert http.post("/v1/run", json=body).json()["stdout"] == "     3  py\n"
    assert http.get("/v1/templates/nothing").status_code == 404
    assert http.get("/v1/templates/..%2F..").status_code == 404
