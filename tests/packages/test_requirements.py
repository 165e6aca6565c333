"""What callers write is read, or refused with what to write instead; hostile texts cost nothing."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import Any

import pytest
from packaging.requirements import Requirement as Reference

from cloche.errors import InvalidRun
from cloche.model.packages import (
    Lock,
    LockedFile,
    LockedPackage,
    normal_name,
    requirements_file,
    requirements_of,
    script_requirements,
)

SHA = "sha256:" + "0" * 64
SHA512 = "sha512-" + "a" * 86 + "=="


@pytest.mark.parametrize(
    ("text", "name", "canonical", "version"),
    [
        ("polars", "polars", "polars", None),
        ("  Flask_SQLAlchemy ", "flask-sqlalchemy", "flask-sqlalchemy", None),
        ("httpx >= 0.27, <1", "httpx", "httpx>=0.27,<1", None),
        ("uvicorn[Standard, a_b ,standard]", "uvicorn", "uvicorn[a-b,standard]", None),
        ("numpy (>=1)", "numpy", "numpy>=1", None),
        ("numpy==1.26.4", "numpy", "numpy==1.26.4", "1.26.4"),
        ("numpy===1.26.4", "numpy", "numpy===1.26.4", "1.26.4"),
        ("numpy==1.*", "numpy", "numpy==1.*", None),
        ("numpy==1.0,<2", "numpy", "numpy==1.0,<2", None),
        ("tomli==2.0; python_version<'3.11'", "tomli", "tomli==2.0; python_version < '3.11'", "2.0"),
        ("a; (extra == 'x' or os_name != \"nt\") and python_version not in '3.8'", "a", None, None),
        ("a[]", "a", "a", None),
    ],
)
def test_python(text: str, name: str, canonical: str | None, version: str | None) -> None:
    (found,) = requirements_of(text, "python")
    assert (found.name, found.version, found.pinned) == (name, version, version is not None)
    assert canonical is None or found.text == canonical
    theirs, ours = Reference(text), Reference(found.text)
    assert (ours.specifier, ours.marker) == (theirs.specifier, theirs.marker)
    assert ours.extras == {normal_name(extra, "python") for extra in theirs.extras}
    assert requirements_of([found.text], "python") == (found,)


@pytest.mark.parametrize(
    ("text", "name", "canonical", "version"),
    [
        ("lodash", "lodash", "lodash", None),
        ("lodash@4", "lodash", "lodash@4", None),
        ("lodash@v4.17.21", "lodash", "lodash@4.17.21", "4.17.21"),
        ("lodash@=4.17.21-rc.1", "lodash", "lodash@4.17.21-rc.1", "4.17.21-rc.1"),
        ("@types/node@>=20   <23 || 24.x", "@types/node", "@types/node@>=20 <23 || 24.x", None),
        ("typescript@next", "typescript", "typescript@next", None),
        ("JSONStream@^1", "JSONStream", "JSONStream@^1", None),
        ("d3@1.2 - 2", "d3", "d3@1.2 - 2", None),
    ],
)
def test_npm(text: str, name: str, canonical: str, version: str | None) -> None:
    (found,) = requirements_of([text], "npm")
    assert (found.ecosystem, found.name, found.text, found.version) == ("javascript", name, canonical, version)


def test_several_at_once() -> None:
    found = requirements_of({"python": ["a", "A", "b"], "npm": "c"}, "python")
    assert [(each.ecosystem, each.name) for each in found] == [("python", "a"), ("python", "b"), ("javascript", "c")]
    assert requirements_of(None, "python") == () == requirements_of([], "javascript")
    assert len(requirements_of((f"p{n}" for n in range(100)), "python")) == 100
    (pinned,) = requirements_of([f"a==1 --hash={SHA}"], "python")
    assert (pinned.hashes, pinned.text) == ((SHA,), "a==1")
    assert requirements_of([f"a@1.0.0 --hash={SHA512}"], "javascript")[0].hashes == (SHA512,)


REFUSED: list[tuple[str, Any, str, str]] = [
    ("python", "numpy pandas", "does not say which versions", 'packages=["numpy", "pandas"]'),
    ("python", "numpy=1.2", "one equals sign", "numpy==1.2"),
    ("python", "httpx@0.27", "how npm writes", "httpx==0.27"),
    ("python", "a@https://example.org/a.whl", "is an address", "pip install ./"),
    ("python", "git+ssh://example.org/a", "is an address", "Name the package"),
    ("python", "a @ file:///etc/passwd", "is an address", "pip install ./"),
    ("python", "./a.whl", "is a path", "pip install ./"),
    ("python", "../a", "is a path", "pip install ./"),
    ("python", "a-1.0-py3-none-any.whl", "is a path", "pip install ./"),
    ("python", "a.tar.gz", "is a path", "pip install ./"),
    ("python", "-e .", "The option '-e'", "pip install ./FOLDER"),
    ("python", "--index-url=x", "The option '--index-url'", "operator"),
    ("python", "-rfile", "The option '-rfile'", "Send the requirements"),
    ("python", "a --index-url x", "does not say which versions", "Write a name"),
    ("python", "a\n--index-url x", "contains the character '\\n'", "ASCII"),
    ("python", "r\u0435quests", "CYRILLIC SMALL LETTER IE", "type the name again"),
    ("python", "", "is empty", "polars"),
    ("python", "_a", "is not the name", "Write a name"),
    ("python", "a>>1", "does not say which versions", "Write a name"),
    ("python", "a; import os", "condition after the semicolon", "python_version"),
    ("python", "a;", "condition after the semicolon", "python_version"),
    ("python", "a; " + "(" * 200 + "extra=='x'" + ")" * 200, "condition after the semicolon", ""),
    ("python", "npm:lodash", "is not a Python package", '{"javascript": ["lodash"]}'),
    ("python", "x" * 501, "longer than 500", ""),
    ("python", f"a --hash={SHA[:-1]}", "is not a hash", "64 hexadecimal"),
    ("python", 3, "named by a text", "polars"),
    ("npm", "lodash==4", "how pip writes", "lodash@4"),
    ("npm", "lodash>=4", "how pip writes", "lodash@>=4"),
    ("npm", "user/repo", "is an address", "copied into the sandbox"),
    ("npm", "a@github:user/repo", "is an address", ""),
    ("npm", "a@git+ssh://x", "is an address", ""),
    ("npm", "a@file:../b", "is an address", ""),
    ("npm", "../a", "is a path", ""),
    ("npm", "a.tgz", "is a path", ""),
    ("npm", "a@npm:b@1", "gives a package another name", "Write b@1"),
    ("npm", "npm:lodash", "is not the name", '{"javascript": ["lodash"]}'),
    ("npm", "-g", "The option '-g'", "Leave the option out"),
    ("npm", "--registry=x", "The option '--registry=x'", "Leave the option out"),
    ("npm", "@scope", "is not the name", "lodash@4"),
    ("npm", "a@", "ends with @", "lodash@4"),
    ("npm", "a@1.x.3", "is not a range", "lodash@4"),
    ("npm", "a@>=1 || && 2", "is not a range", "lodash@4"),
    ("npm", "a" * 215, "longer than npm's 214", ""),
]


@pytest.mark.parametrize(("ecosystem", "text", "message", "hint"), REFUSED)
def test_what_no_index_has_is_refused_with_advice(ecosystem: str, text: Any, message: str, hint: str) -> None:
    with pytest.raises(InvalidRun) as problem:
        requirements_of([text], ecosystem)
    assert message in problem.value.message
    assert hint in problem.value.hint


@pytest.mark.parametrize(
    ("values", "ecosystem", "message"),
    [
        ([f"p{n}" for n in range(101)], "python", "At most 100 packages"),
        (b"abc", "python", "packages is a list of names"),
        (3, "python", "packages is a list of names"),
        ({"python": {"a": 1}}, "python", "packages is a list of names"),
        ({"gem": ["rails"]}, "python", "Packages of 'gem' cannot be installed"),
        (["a"], "rust", "Packages of 'rust' cannot be installed"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(values: Any, ecosystem: str, message: str) -> None:
    with pytest.raises(InvalidRun, match=message):
        requirements_of(values, ecosystem)


def test_hostile_texts_are_decided_at_once() -> None:
    chance = random.Random(1)
    letters = "aA1.-_[],;()@/<>=!~^*|& '\"\\#:x\0\u00e9"
    texts = ["".join(chance.choices(letters, k=chance.choice([3, 10, 60, 490]))) for _ in range(3000)]
    texts += [
        part * (490 // len(part)) for part in ("a-", "a ", "a,", "[a,", "a[a,a", "(", "||", "a@", ">=1 ", "'", "-_.")
    ]
    texts += [
        "a; " + "extra=='x' and " * 30,
        "a[" + "a," * 200,
        "a==" + "1." * 200,
        "a==" + "1" * 400,
        "a" + " " * 100_000,
    ]
    begin = time.perf_counter()
    for text in texts:
        for ecosystem in ("python", "javascript"):
            try:
                (found,) = requirements_of([text], ecosystem)
            except InvalidRun:
                continue
            assert not found.text.startswith("-")
            assert found.text.isprintable()
            assert not {"/", ":"} & set(found.text.partition(";")[0].removeprefix(found.name))
    assert time.perf_counter() - begin < 10


def test_a_requirements_file() -> None:
    text = (
        "\ufeff# made by a tool\r\n"
        "flask>=3  # the server\r\n"
        f"requests==2.32.3 \\\n    --hash={SHA} \\\n    --hash=sha256:{'1' * 64}\n"
        "# nothing\n\n"
        "tomli; python_version < '3.11'\n"
        "a-#b\n"
    ).replace("a-#b\n", "last \\")
    found = requirements_file(text)
    assert [each.text for each in found] == ["flask>=3", "requests==2.32.3", "tomli; python_version < '3.11'", "last"]
    assert found[1].hashes == (SHA, "sha256:" + "1" * 64)
    assert requirements_file("# nothing\n") == ()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a\n\n-r other.txt", "Line 3 of the requirements: The option '-r'", "one file"),
        ("-e .", "Line 1 of the requirements: The option '-e'", "FOLDER"),
        ("--index-url https://example.org", "Line 1 of the requirements: The option '--index-url'", "operator"),
        ("--pre", "Line 1 of the requirements: The option '--pre'", "Leave"),
        ("a\nb @ https://example.org/b.zip", "Line 2 of the requirements: 'b @", "pip install ./"),
        (f"--require-hashes\na==1 --hash={SHA}\nb==1", "b==1 has none", "--hash"),
        ("\n".join(f"p{n}" for n in range(501)), "at most 500 packages", ""),
        ("#" * (5 << 20), "at most 4 MB", ""),
    ],
)
def test_a_requirements_file_is_refused_by_line(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidRun) as problem:
        requirements_file(text)
    assert message in problem.value.message
    assert hint in problem.value.hint


SCRIPT = '#!/usr/bin/env python\n# /// script\n# requires-python = ">=3.11"\n{}# ///\nimport httpx\n'


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("print(1)", ()),
        (SCRIPT.format(""), ()),
        (SCRIPT.format('# dependencies = [\n#   "httpx>=0.27",\n#\n#   "rich",\n# ]\n'), ("httpx>=0.27", "rich")),
        (SCRIPT.format('# dependencies = ["a"]\n').replace("\n", "\r\n"), ("a",)),
        ("text = '# /// script'\n", ()),
        (SCRIPT.format('# dependencies = ["a"]\n# [tool.other]\n# x = 1\n'), ("a",)),
    ],
)
def test_a_script_names_its_packages(code: str, found: tuple[str, ...]) -> None:
    assert script_requirements(code) == found


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ('# /// script\n# dependencies = ["a"]\nprint(1)', "has no end"),
        (SCRIPT.format("# dependencies = [\n"), "is not TOML"),
        (SCRIPT.format('# dependencies = "a"\n'), "not a list of texts"),
        (SCRIPT.format("# dependencies = [1]\n"), "not a list of texts"),
        (SCRIPT.format("# dependencies = " + "[" * 5000 + "\n"), "is not TOML"),
        (SCRIPT.format("") * 2, "more than one block"),
        (SCRIPT.format(f"# dependencies = {['a'] * 101}\n"), "can name at most 100"),
        (SCRIPT.format("# x = 1\n" * 20_000), "longer than"),
        (SCRIPT.format('# [tool.uv.sources]\n# a = {path = "/"}\n'), "sets sources for uv"),
        (SCRIPT.format('# [[tool.uv.index]]\n# url = "x"\n'), "sets index for uv"),
    ],
)
def test_a_broken_block_is_refused(code: str, message: str) -> None:
    with pytest.raises(InvalidRun, match=message):
        script_requirements(code)


def test_a_lock_is_named_by_what_it_contains() -> None:
    def locked(*versions: str) -> Lock:
        return Lock("python", tuple(LockedPackage("python", v, v, LockedFile("f", "url", SHA)) for v in versions))

    assert locked("1", "2").digest == locked("2", "1").digest
    assert len({locked().digest, locked("1").digest, locked("2").digest, Lock("javascript", ()).digest}) == 4
    assert len(locked("1").digest) == 64


def test_a_run_without_packages_loads_nothing_of_this() -> None:
    code = "import sys, cloche; cloche.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "cloche" in loaded
    assert not [name for name in loaded if name.startswith(("cloche.packages", "cloche.model.python_", "packaging"))]
