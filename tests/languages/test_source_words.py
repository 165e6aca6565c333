"""Programs that start with less of their language: which ones may, and that they cannot notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche import languages
from cloche.languages import preparation
from cloche.languages.language import Language, Plan, Project

pytestmark = pytest.mark.usefixtures("jail")
Planned = Callable[[str, str], Plan]

LESS = {
    "ruby": ["puts [3, 1].sort.inspect", "def f(x)\n  x.frist\nend\nprint 1\nf([2])", "# require\nexit 3"],
    "php": ["echo json_encode(['a' => 1]), date('Y') > 2000;", "<?php\n// ctype_alpha\nno_such('x');", "exit(3);"],
    "r": [
        "x <- data.frame(a = 1:2, b = c('x', 'y'))\nx\nsummary(c(1, 2, 4))\nx[x$a > 1, ]",
        "# median\ntryCatch(stop('inner'), error = function(e) print(e))\nwarning('w')\nno_such(1)",
        "m <- matrix(c(2, 0, 0, 2), 2)\nsolve(m)\nfactor(c('a', 'b'))\nquit(status = 3)",
    ],
}
MORE = {
    "ruby": [
        "require 'json'",
        "puts Gem::VERSION",
        "begin\n  x.y\nrescue NameError => e\n  puts e\nend",
        "send('req' + 'uire', 'set')",
    ],
    "php": [
        "echo ctype_alpha('a');",
        "$f = 'cty' . 'pe_alpha'; echo $f('a');",
        "echo ('ctype_' . 'alpha')('a');",
        "print_r(get_loaded_extensions());",
    ],
    "r": ["median(1:3)", "get(paste0('med', 'ian'))(1:3)", "plot(1)", "print(y ~ x)", "stats::sd(1:3)", "head(iris)"],
}


@pytest.fixture
def planned() -> Iterator[Planned]:
    """Plan the run of a snippet with the prepared files."""

    def plan(name: str, code: str) -> Plan:
        language = prepared_language(name)
        found = languages.tools(language)
        assert found is not None
        entry = f"/sandbox/code/{language.main}"
        return language.plan_for(Project(entry, code, "/sandbox/code", frozenset((language.main,)), True), found)

    yield plan
    languages.forget_tools()


def prepared_language(name: str) -> Language:
    language = needs(name)
    found = languages.tools(language)
    if found is not None and found.prepared is None:
        preparation.prepare(language, found)
        languages.forget_tools()
    return language


def is_lean(plan: Plan) -> bool:
    return "--disable=gems" in plan.run or bool(plan.env.keys() & {"PHP_INI_SCAN_DIR", "R_DEFAULT_PACKAGES"})


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, codes in LESS.items() for code in codes])
def test_what_starts_with_less_prints_the_same(name: str, code: str, planned: Planned) -> None:
    assert is_lean(planned(name, code))
    less = cloche.run(code, language=name)
    found = languages.tools(languages.find(name))
    assert found is not None
    languages._found[name] = found.replace(prepared=None)
    full = cloche.run(code, language=name)
    assert (less.stdout, less.stderr, less.exit_code) == (full.stdout, full.stderr, full.exit_code)
    assert less.stdout or less.exit_code


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, codes in MORE.items() for code in codes])
def test_what_may_need_more_gets_all(name: str, code: str, planned: Planned) -> None:
    assert not is_lean(planned(name, code))
