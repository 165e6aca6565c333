"""A program that asks for a library that is not there is told what is."""

import json

import pytest

import cloche
from cloche import environment, languages
from cloche.engine.missing_modules import INSTALLED_ONLY, advice


@pytest.mark.parametrize(
    ("language", "code", "hint"),
    [
        ("python", "import panda", "panda is not installed: did you mean pandas?"),
        ("python", "import wand", "wand is not installed: use skimage, cv2 or PIL instead."),
        ("python", "import openpyxls", "openpyxls is not installed: did you mean openpyxl?"),
        ("python", "import pillow", "The module is called PIL: import PIL instead of pillow."),
        (
            "python",
            "import sklearn.ensembl",
            "sklearn is installed, but has no ensembl: did you mean sklearn.ensemble?",
        ),
        ("javascript", "require('fss')", "fss is not installed: did you mean fs?"),
        ("javascript", "require('koa')", "koa is not installed: use express or http instead."),
        ("javascript", "require('lodahs')", "lodahs is not installed: did you mean lodash?"),
        ("javascript", "import x from 'yup'", "yup is not installed: use zod instead."),
        ("javascript", "require('nothing-like-it')", INSTALLED_ONLY),
        ("r", "library(dplyr)", "dplyr is not installed: use aggregate, merge or subset instead."),
        ("ruby", "require 'nokogiri'", "nokogiri is not installed: use rexml/document instead."),
        ("perl", "use JSON::XS;", "JSON::XS is not installed: use JSON::PP instead."),
    ],
)
@pytest.mark.usefixtures("jail")
def test_a_missing_library_has_a_suggestion(box, language, code, hint):
    if languages.tools(languages.find(language)) is None:
        pytest.skip(f"{language} is not installed")

    results = [box.run_program(code, language=language), box.run(code, language=language)]

    assert [result.error.hint for result in results] == [hint, hint]


def test_only_installed_libraries_are_suggested(tmp_path, monkeypatch):
    (tmp_path / environment.MANIFEST).write_text(json.dumps({"packages": {"numpy": "2"}}))
    monkeypatch.setenv("CLOCHE_ENVIRONMENT", str(tmp_path))

    assert missing("torch") == "torch is not installed: use numpy instead."
    assert missing("panda") is None
    assert missing("fitz") is None
    assert advice("Error", "Cannot find module 'koa'") == "koa is not installed: use http instead."
    assert advice("Error", "Cannot find module 'lodash'").startswith(
        "lodash is not installed: use the methods of Array"
    )
    assert advice("Error", "Cannot find module 'yup'") == INSTALLED_ONLY


def test_a_name_that_resembles_nothing_has_none(jail):
    result = cloche.run("import nothing_like_it")

    assert result.error is not None
    assert result.error.hint == INSTALLED_ONLY


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc", "a" * 100_000, "'" * 10_000, "x.\n" * 1000, "sklearn/../x"]
)
def test_hostile_names_are_not_looked_up(name):
    assert missing(name) is None
    assert advice("Error", f"Cannot find module '{name}'") in (None, INSTALLED_ONLY)


def missing(name: str) -> str | None:
    return advice("ModuleNotFoundError", f"No module named '{name}'")


@pytest.mark.parametrize("variant", ["slim", "full"])
@pytest.mark.parametrize("module", ["pandas", "sklearn.svm", "PIL"])
def test_a_library_that_the_slim_environment_leaves_out_can_be_installed(tmp_path, monkeypatch, module, variant):
    (tmp_path / environment.MANIFEST).write_text(json.dumps({"variant": variant, "packages": {"numpy": "2"}}))
    monkeypatch.setenv("CLOCHE_ENVIRONMENT", str(tmp_path))
    hint = advice("ModuleNotFoundError", f"No module named '{module}'") or ""
    assert ("on the host, `cloche setup` installs the full set" in hint) == (variant == "slim")
