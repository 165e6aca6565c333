"""Files in /etc and elsewhere that ordinary programs look for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

import cloche

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(scope="module")
def box(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox() as box:
        yield box


def test_git_has_an_identity_and_starts_repositories_quietly(box):
    done = box.commands.run(
        "git init one && cd one && touch a && git add a && git commit -q -m first && git log --format=%an"
    )
    assert (done.stdout.splitlines()[1:], done.stderr) == (["user"], "")
    assert box.commands.run(
        "cd one; git branch --show-current; git config user.name Ada; git commit -q --allow-empty -m x"
    ).ok
    assert box.commands.run("git -C one log -1 --format=%an").stdout == "Ada\n"  # its own settings go first


STARTS = {
    "mvn": ("mvn --version", "Apache Maven"),
    "man": ("man ls 2>&1", "list directory contents"),
    "lscpu": ("lscpu", "Architecture:"),
}


@pytest.mark.parametrize("program", STARTS)
def test_a_program_finds_its_settings(box, program):
    if shutil.which(program) is None:
        pytest.skip(f"the host has no {program}")
    words, expected = STARTS[program]
    done = box.commands.run(words, timeout=60)
    assert done.ok, done
    assert expected in done.stdout
    assert "warning" not in done.stdout


def test_maven_keeps_the_hosts_passwords_to_itself(box):
    assert not box.files.exists("/etc/maven/settings.xml")


def test_locales_are_accepted_and_format_as_they_should(box):
    if not box.files.exists("/opt/prepared/locales"):
        pytest.skip("no locales were prepared: cloche languages prepare")
    result = box.run("""
        import locale
        for name in ("en_US.UTF-8", "fr_FR.utf8", "de_DE.UTF-8"):
            locale.setlocale(locale.LC_ALL, name)
        print(locale.format_string("%.2f", 1234567.5, grouping=True))
    """)
    assert result.error is None
    assert result.stdout in ("1.234.567,50\n", "1234567.50\n")  # the latter where the host has no sources of locales
    done = box.commands.run("LANG=en_US.UTF-8 perl -e 'print 1'")
    assert (done.stdout, done.stderr) == ("1", "")
