"""`cloche run NOTEBOOK.ipynb` runs the cells in one session, stops at an error, and saves the outputs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import CLOCHE, run
from tests.languages.toolchains import needs

PICTURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"

pytestmark = pytest.mark.usefixtures("jail")


def code(source: str | list[str], **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None, **more}


def written(folder: Path, *cells: dict[str, Any], language: str = "python", **more: Any) -> Path:
    kernel = {"name": language, "language": language, "display_name": language}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5, **more}
    path = folder / "n.ipynb"
    path.write_text(json.dumps(content) + "\n")
    return path


def check_is_valid(notebook: dict[str, Any]) -> None:
    """Check the parts of nbformat's schema that concern outputs."""
    needed = {
        "stream": {"name", "text"},
        "display_data": {"data", "metadata"},
        "execute_result": {"data", "metadata", "execution_count"},
        "error": {"ename", "evalue", "traceback"},
    }
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            assert output.keys() == {"output_type", *needed[output["output_type"]]}
            texts = [output.get("text", []), output.get("traceback", []), *output.get("data", {}).values()]
            assert all(isinstance(text, str) or all(isinstance(line, str) for line in text) for text in texts)


def test_cells_run_in_one_session_and_their_outputs_are_saved(tmp_path: Path) -> None:
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"], "attachments": {"a": {}}}
    path = written(
        tmp_path,
        text,
        code(["x = 40\n", "print('größe')\n", "x + 2"], id="first", metadata={"tags": ["kept"]}),
        code(PICTURE),
        code("!echo shell\nimport sys\nprint('oops', file=sys.stderr)\nopen('output/a.txt', 'w').write('1');"),
        {"cell_type": "raw", "metadata": {}, "source": "raw"},
        code("import pandas as pd\npd.DataFrame({'a': [x]})"),
        code("", outputs=[]),
        custom={"ünknown": [1]},
    )
    path.chmod(0o640)
    done = run(tmp_path, "--save", "--out", "pictures", "n.ipynb")
    assert done.returncode == 0, done.stderr
    figure = "<Figure size 640x480 with 1 Axes>\n[a picture: cell-3.png]\n"
    assert done.stdout == f"größe\n42\n{figure}shell\n    a\n0  40\n"
    assert done.stderr.startswith("oops\ncloche: 2 files copied to pictures\n")
    assert (tmp_path / "pictures" / "cell-3.png").read_bytes().startswith(b"\x89PNG")
    saved = json.loads(path.read_text())
    check_is_valid(saved)
    assert (path.stat().st_mode & 0o777, saved["custom"], saved["cells"][0]) == (0o640, {"ünknown": [1]}, text)
    first = saved["cells"][1]
    assert (first["id"], first["metadata"], first["execution_count"]) == ("first", {"tags": ["kept"]}, 1)
    assert first["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": ["größe\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["42"]}, "metadata": {}, "execution_count": 1},
    ]
    assert saved["cells"][2]["outputs"][0]["data"]["image/png"].startswith("iVBOR")
    assert [output["name"] for output in saved["cells"][3]["outputs"]] == ["stdout", "stderr"]
    assert "text/html" in saved["cells"][5]["outputs"][0]["data"]
    assert sorted(os.listdir(tmp_path)) == ["n.ipynb", "pictures"]


def test_it_stops_at_the_first_error_and_says_where(tmp_path: Path, served: Any) -> None:
    old = [{"output_type": "stream", "name": "stdout", "text": ["old\n"]}]
    path = written(tmp_path, code("y = 1"), code("y / 0"), code("print('never')", outputs=old))
    before = path.read_bytes()
    there = {"CLOCHE_URL": served.url, "CLOCHE_API_KEY": served.key}
    for is_saved, env in ((False, there), (True, {})):
        done = run(tmp_path, *(["--save"] if is_saved else []), "n.ipynb", **env)
        assert (done.stdout, done.returncode) == ("", 1)
        assert "----> 1 y / 0" in done.stderr
        assert "cloche: Cell 2 of 3 failed. ZeroDivisionError: division by zero\n" in done.stderr
        assert (path.read_bytes() == before) is not is_saved
    saved = json.loads(path.read_text())
    check_is_valid(saved)
    assert saved["cells"][1]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert saved["cells"][2]["outputs"] == old


def test_notebooks_of_other_languages_run_where_they_have_sessions(tmp_path: Path) -> None:
    needs("bash")
    written(tmp_path, code("a=5"), code("echo $a"), language="bash")
    assert run(tmp_path, "n.ipynb").stdout == "5\n"
    written(tmp_path, code("1"), language="go")
    refused = run(tmp_path, "n.ipynb")
    assert refused.returncode == 125
    assert "n.ipynb is a notebook in go, and Cloche has no sessions in that language." in refused.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "n.ipynb is not a notebook: it is not JSON."),
        ("[]", "it has no cells."),
        ('{"worksheets": [], "nbformat": 3}', "its format is older than 4."),
    ],
)
def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "n.ipynb").write_text(text)
    done = run(tmp_path, "n.ipynb")
    assert (done.returncode, why in done.stderr) == (125, True)


def test_a_notebook_that_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path, code("print('changed')\ninput()"), code("1"))
    command = [CLOCHE, "run", "--save", "--mount", f"{tmp_path}:/sandbox/here:rw", "n.ipynb"]
    path.write_text(path.read_text().replace("input()", "open('/sandbox/here/n.ipynb', 'a').write(' ')"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 125
    assert "n.ipynb has changed since it was read: the outputs are not saved." in done.stderr
    assert path.read_text().endswith("\n ")
    assert os.listdir(tmp_path) == ["n.ipynb"]
