"""Projects with Go modules: built from the proxy the first time, and without it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.packages.registries import folder, layers, needs, unplug  # noqa: F401

import cloche

pytestmark = [pytest.mark.usefixtures("jail", "folder"), pytest.mark.timeout(300)]
NIL = "00000000-0000-0000-0000-000000000000\n"
FILES = {
    "go.mod": "module app\n\ngo 1.21\n\nrequire github.com/google/uuid v1.6.0\n",
    "main.go": 'package main\n\nimport (\n\t"fmt"\n\n\t"github.com/google/uuid"\n)\n\n'
    "func main() { fmt.Println(uuid.Nil) }\n",
}
LIST = "go list -m all"  # needs the module, and compiles nothing


@pytest.fixture(autouse=True, scope="module")
def go() -> None:
    needs("go")


def test_a_program_builds_with_its_modules_and_again_without_the_proxy(
    folder: Path,  # noqa: F811
    unplug: Callable[[], None],  # noqa: F811
) -> None:
    first = cloche.run(files=FILES, language="go", build_timeout=300)
    assert first.stdout == NIL, first
    unplug()
    again = cloche.run(files=FILES, language="go", build_timeout=300)
    assert again.stdout == NIL, again
    assert len(layers(folder)) == 1


def test_a_command_gets_go_sum_and_keeps_it(unplug: Callable[[], None]) -> None:  # noqa: F811
    with cloche.Sandbox() as box:
        for name, text in FILES.items():
            box.files.write(name, text)
        done = box.commands.run(f"{LIST} && go mod verify", timeout=100)
        assert done.stdout == "app\ngithub.com/google/uuid v1.6.0\nall modules verified\n", done.stderr
        sums = box.files.read_text("go.sum")
        assert len(sums.splitlines()) == 2
    unplug()
    with cloche.Sandbox() as box:
        for name, text in {**FILES, "go.sum": sums}.items():
            box.files.write(name, text)
        done = box.commands.run("go list -deps . | grep uuid", timeout=100)
        assert done.stdout == "github.com/google/uuid\n", done.stderr


def test_go_get_and_go_mod_tidy_change_the_manifests() -> None:
    files = {**FILES, "go.mod": "module app\n\ngo 1.21\n"}
    got = cloche.run("go get github.com/google/uuid@v1.5.0 && cat go.mod", files=files, language="bash", timeout=100)
    assert "github.com/google/uuid v1.5.0" in got.stdout, got.stderr
    tidy = cloche.run("go mod tidy && cat go.mod go.sum", files=files, language="bash", timeout=100)
    assert "require github.com/google/uuid v1." in tidy.stdout, tidy.stderr
    assert "/go.mod h1:" in tidy.stdout, tidy.stderr


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(folder: Path) -> None:  # noqa: F811
    wrong = f"h1:{'A' * 43}="
    sums = f"github.com/google/uuid v1.6.0 {wrong}\ngithub.com/google/uuid v1.6.0/go.mod {wrong}\n"
    done = cloche.run(LIST, files={**FILES, "go.sum": sums}, language="bash", timeout=100)
    assert done.exit_code == 1, done.stderr
    assert "does not have the contents that go.sum" in done.stderr, done.stderr
    assert layers(folder) == []


def test_without_the_proxy_a_sentence_says_so(folder: Path, unplug: Callable[[], None]) -> None:  # noqa: F811
    unplug()
    done = cloche.run(LIST, files=FILES, language="bash", timeout=100)
    assert done.exit_code == 1, done.stderr
    assert "The proxy of Go modules does not answer" in done.stderr, done.stderr
    assert layers(folder) == []


def test_a_project_without_dependencies_asks_nobody(unplug: Callable[[], None]) -> None:  # noqa: F811
    unplug()
    files = {"go.mod": "module app\n\ngo 1.21\n", "main.go": "package main\n\nfunc main() {}\n"}
    done = cloche.run(LIST, files=files, language="bash", timeout=100)
    assert done.stdout == "app\n", done.stderr
