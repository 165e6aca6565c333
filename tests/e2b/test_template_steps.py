"""The translation of E2B's templates into environments: what each instruction becomes, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from cloche.doors.e2b.base_images import HostFacts, note_on
from cloche.doors.e2b.template_steps import FOLDER, Plan, StepRefused, needed_archives, translated
from cloche.errors import InvalidRun
from cloche.packages.system_packages import names_in, stand_in

FACTS = HostFacts("Debian GNU/Linux 12 (bookworm)", "3.11.7", "20.20.2")
HASH = "0" * 63 + "a"


def plan(*steps: tuple[str, list[str]], user: str = "", **body: Any) -> Plan:
    listed = [{"type": kind, "args": args, "filesHash": HASH} for kind, args in steps]
    known = {HASH: memoryview(b"archive")}
    return translated({"steps": listed, **body}, FACTS, known.get, lambda: ("bash",), user, "/usr/bin")


def refused(*steps: tuple[str, list[str]], **body: Any) -> StepRefused:
    with pytest.raises(StepRefused) as caught:
        plan(*steps, **body)
    return caught.value


def test_an_instruction_becomes_at_most_one_step() -> None:
    made = plan(
        ("WORKDIR", ["app"]), ("USER", ["root"]), ("RUN", ["id"]), ("ENV", ["A", "1"]), ("COPY", ["x", "y", "", ""])
    )
    assert [step.kind for step in made.spec.steps] == ["folder", "folder", "run", "env", "run"]
    assert made.origins == ("base", "1", "3", "4", "5")
    assert made.user == "root"
    assert [step.title for step in made.spec.steps][2:] == ["id", "", "COPY x y"]
    assert made.spec.steps[1].text == "/home/user/app"


def test_commands_run_in_a_login_shell_of_their_user() -> None:
    text = plan(("RUN", ["echo 'a b'"]), ("RUN", ["id", "root"])).spec.steps
    shell = "HOME=/home/user USER=user LOGNAME=user exec /bin/bash -l -c"
    assert text[1].text == f"PACKAGES_AS_LAYERS=1 {shell} " + quote("echo 'a b'")
    assert "HOME=/root USER=root" in text[2].text


def test_variables_are_expanded_when_they_are_set() -> None:
    steps = plan(
        ("ENV", ["A", "x", "PATH", "/app/bin:$PATH"]), ("ENV", ["B", "${A}y$NONE", "PATH", "/b:$PATH"])
    ).spec.steps
    assert steps[1].variables == {"A": "x", "PATH": "/app/bin:/usr/bin"}
    assert steps[2].variables == {"B": "xy", "PATH": "/b:/app/bin:/usr/bin"}


@pytest.mark.parametrize(
    ("target", "where"),
    [("/x/", "/x/"), (".", "/home/user/"), ("x", "/home/user/x"), ("./a/../b/", "/home/user/b/"), ("$DIR/x", "/d/x")],
)
def test_a_copy_goes_where_a_dockerfile_would_put_it(target: str, where: str) -> None:
    step = plan(("ENV", ["DIR", "/d"]), ("COPY", ["src", target, "", "0755"])).spec.steps[-1]
    assert step.text.endswith(f"{FOLDER}/place_files.py {FOLDER}/{HASH} src {where} 0755")
    assert step.files[0] == (f"{FOLDER}/{HASH}", b"archive", 0o644)


def test_a_template_continues_as_the_user_of_its_base() -> None:
    made = plan(("RUN", ["id"]), user="root", fromTemplate="mine:v1")
    assert made.spec.base == "mine:v1"
    assert "USER=root" in made.spec.steps[0].text
    assert made.origins == ("1",)


def test_a_start_command_is_tried_once() -> None:
    made = plan(("USER", ["root"]), startCmd="serve", readyCmd="sleep 20")
    assert made.origins[-1] == "finalize"
    assert made.spec.start.endswith("USER=root LOGNAME=root exec /bin/bash -l -c serve")
    assert "20 s" in made.notes[-1]
    assert plan(readyCmd="true").spec.start == ""


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (("RUN", ["devcontainer build ."]), "devcontainer"),
        (("RUN", ["sudo docker run x"]), "docker"),
        (("RUN", ["id", "daemon"]), "daemon"),
        (("RUN", ["x" * 300_000]), "200 KB"),
        (("ENV", ["A"]), "ENV A"),
        (("ENV", ["1A", "x"]), "1A"),
        (("COPY", ["a", "b", "", "rwx"]), "rwx"),
        (("COPY", ["a", "b", "nobody", ""]), "nobody"),
        (("HEALTHCHECK", ["x"]), "HEALTHCHECK"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_step_that_an_environment_cannot_express_is_refused_by_name(step: tuple[str, list[str]], text: str) -> None:
    problem = refused(("RUN", ["true"]), step)
    assert problem.origin == "2"
    assert text in str(problem)


def test_a_template_has_a_bounded_number_of_steps() -> None:
    assert refused(*[("RUN", ["true"])] * 200).origin == "180"


def test_the_needed_archives_are_listed_once() -> None:
    steps: list[Any] = [{"type": "COPY", "args": [], "filesHash": each} for each in (HASH, HASH, "no hash", None)]
    assert needed_archives({"steps": steps}) == [HASH]
    with pytest.raises(InvalidRun):
        needed_archives({"steps": "RUN"})


@pytest.mark.parametrize(
    ("image", "note"),
    [
        ("e2bdev/base", "Python 3.11.7"),
        ("e2bdev/code-interpreter:latest", "take its place"),
        ("python:3", "Python 3.11.7"),
        ("python:3.11", "Python 3.11.7"),
        ("docker.io/library/python:3.11.7-slim-bookworm", "Python 3.11.7"),
        ("python", "Python 3.11.7"),
        ("python:3.11.2", "Warning"),
        ("node:20", "Node.js 20.20.2"),
        ("node:lts", "Node.js 20.20.2"),
        ("ubuntu:22.04", "Debian GNU/Linux 12"),
        ("debian:stable", "Debian GNU/Linux 12"),
    ],
)
def test_a_known_image_is_accepted_with_a_note(image: str, note: str) -> None:
    assert note in note_on(image, FACTS)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("python:3.12", "write python:3.11"),
        ("python:2", "write python:3.11"),
        ("python:3.1", "write python:3.11"),
        ("python:3.11-alpine", "another one than Debian"),
        ("python:3.13-rc", "write python:3.11"),
        ("node:22", "write node:20"),
        ("alpine:3", "not fetched"),
        ("postgres", "not fetched"),
        ("ghcr.io/python:3", "not fetched"),
        ("python@sha256:abc", "digest"),
    ],
)
def test_another_image_is_refused_by_name(image: str, reason: str) -> None:
    with pytest.raises(InvalidRun) as caught:
        note_on(image, FACTS)
    assert image in caught.value.message
    assert reason in caught.value.message
    assert "from_base_image" in caught.value.hint


def test_the_listing_of_dpkg_is_read() -> None:
    listing = "installed\tbash\t\ninstalled\tmawk\tawk\nconfig-files\tgone\t\ninstalled\tlibc6\tlibc (= 2), x-libc\n"
    assert names_in(listing) == ("awk", "bash", "libc", "libc6", "mawk", "x-libc")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("update", 0, "nothing to do"),
        ("install -y --no-install-recommends -o Dpkg::Use-Pty=0 bash", 0, "bash is already"),
        ("install bash=5.2 curl:amd64", 0, "curl is already"),
        ("-qq -y install bash vim emacs", 100, "E: vim, emacs:"),
        ("remove bash", 1, "apt remove bash is not available"),
    ],
)
def test_the_stand_in_for_apt_knows_the_hosts_packages(tmp_path: Path, arguments: str, code: int, text: str) -> None:
    program = stand_in(str(tmp_path))["apt-get"].partition("\n")[2]
    (tmp_path / "packages").write_text("bash\ncurl")
    done = subprocess.run(["python3", "-c", program, *arguments.split()], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert text in done.stdout + done.stderr
