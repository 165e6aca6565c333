"""The files that programs leave in the output folder are listed, and pictures of one-shot programs come back."""

from __future__ import annotations

import base64

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import templates

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPj/HwADAgH/5ncGyAAAAABJRU5ErkJggg=="
)

pytestmark = pytest.mark.usefixtures("jail")


def named(result: cloche.Result) -> list[tuple[str, int, str]]:
    return [(one.path.removeprefix("/sandbox/output/"), one.size, one.mime) for one in result.artifacts]


def test_a_program_lists_its_new_and_changed_files_and_shows_its_pictures() -> None:
    code = """
import os, pathlib
output = pathlib.Path("/sandbox/output")
(output / "deep").mkdir()
(output / "deep" / "dot.png").write_bytes((output / "old.png").read_bytes())
(output / "fake.png").write_text("no picture")
(output / "note.txt").write_text("done")
(output / "changed.txt").write_text("after")
(output / "link.png").symlink_to("/etc/passwd")
pathlib.Path("elsewhere.txt").write_text("not listed")
"""
    files: dict[str, str | bytes] = {"main.py": code, "output/old.png": PNG, "output/changed.txt": "before"}
    result = cloche.run(files=files)
    assert result.error is None
    pictures = ("deep/dot.png", len(PNG), "image/png"), ("fake.png", 10, "image/png")
    assert named(result) == [("changed.txt", 5, "text/plain"), *pictures, ("note.txt", 4, "text/plain")]
    (shown,) = result.results
    assert (shown.data("image/png"), shown.metadata["path"]) == (PNG, "/sandbox/output/deep/dot.png")


def test_the_chart_of_a_template_comes_back() -> None:
    template = templates.find("python-data")
    result = cloche.run(files=template.files, entry=template.entry)
    assert [name for name, _, _ in named(result)] == ["turnover.png"]
    assert result.results[0].data("image/png").startswith(PNG[:8])


def test_other_languages_do_the_same() -> None:
    needs("r")
    result = cloche.run('png("output/cars.png")\nplot(cars)\ninvisible(dev.off())', language="r")
    assert [name for name, _, _ in named(result)] == ["cars.png"]
    assert result.results[0].png


def test_a_program_in_a_lasting_sandbox_lists_its_files_and_they_stay_there() -> None:
    with cloche.Sandbox() as box:
        result = box.run_program("open('output/a.txt', 'w').write('x')")
        assert (named(result), result.results) == ([("a.txt", 1, "text/plain")], ())
        assert box.files.read("output/a.txt") == b"x"
        assert box.run_program("print(1)").artifacts == ()
        assert box.run("printf ab > output/b.txt", language="bash").artifacts[0].size == 2
