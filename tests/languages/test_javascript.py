"""JavaScript: the kind of a module, the entry of a project, and errors."""

from __future__ import annotations

import re

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.entry import choose_entry
from cloche.languages.javascript import manifest, modules

pytestmark = pytest.mark.usefixtures("jail")


@pytest.fixture(autouse=True)
def _node() -> None:
    needs("javascript")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("const { sep } = require('path');\nconsole.log(sep, typeof module)", "/ object\n"),
        ("import { sep } from 'node:path';\nconsole.log(sep, typeof module)", "/ undefined\n"),
        ("const one = await Promise.resolve(1);\nconsole.log(one)", "1\n"),
        ("const text = `\nimport x from 'y'\n`;\nconsole.log(text.length, typeof require)", "19 function\n"),
    ],
)
def test_a_snippet_is_the_kind_of_module_that_it_looks_like(code: str, expected: str) -> None:
    result = cloche.run(code, language="javascript")
    assert (result.stdout, result.error) == (expected, None)


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        ("await f()", True),
        ("if (x) { for (const y of z) { await y } }", True),
        ("const o = { a: await f() }", True),
        ("try { await f() } catch (e) { }", True),
        ("async function f() { if (x) { await y } }", False),
        ("const f = async (a = {}) => { await a }", False),
        ("class A { async m(): Promise<void> { try { await x } finally { } } }", False),
        ("const o = { await: 1 }; f(o.await)", False),
        ("// await\nconst s = 'await x'; const r = /await {/", False),
    ],
)
def test_waiting_outside_of_functions_is_seen(code: str, waits: bool) -> None:
    assert modules.waits(modules.code_of(code)) is waits


def test_a_project_begins_where_its_manifest_says_and_finds_its_packages() -> None:
    files = {
        "package.json": '{"type": "module", "main": "./lib/start", "scripts": {"start": "node --no-warnings go.js"}}',
        "go.js": "import { two } from 'dep';\nimport { three } from './lib/three.js';\nconsole.log(two + three)",
        "lib/three.js": "export const three = 3;",
        "lib/start.js": "throw new Error('not this one')",
        "node_modules/dep/package.json": '{"name": "dep", "exports": "./two.cjs"}',
        "node_modules/dep/two.cjs": "exports.two = 2;",
    }
    result = cloche.run(files=files, language=None)
    assert (result.stdout, result.error) == ("5\n", None)


def test_a_compiled_entry_leads_to_its_source() -> None:
    texts = {"package.json": b'{"main": "dist/app.js"}', "tsconfig.json": b"{}", "src/app.ts": b"", "src/index.ts": b""}
    assert choose_entry(None, None, list(texts), texts) == ("typescript", "src/app.ts")


def test_code_finds_the_data_that_comes_with_it() -> None:
    result = cloche.run("console.log(require('./x.json').a)", language="javascript", files={"x.json": '{"a": 4}'})
    assert result.stdout == "4\n"


def test_errors_point_at_the_source_that_a_map_names() -> None:
    files = {
        "main.js": 'throw new Error("here")\n//# sourceMappingURL=main.js.map\n',
        "main.js.map": '{"version": 3, "sources": ["original.coffee"], "names": [], "mappings": "AAEA"}',
    }
    result = cloche.run(files=files, language=None)
    assert "original.coffee:3:" in result.stderr


@pytest.mark.parametrize(
    ("code", "kind", "name", "message"),
    [
        ("null.x", "runtime", "TypeError", "Cannot read properties of null (reading 'x')"),
        ("class Odd extends Error {}\nthrow new Odd('two\\nlines')", "runtime", "Odd", "two\nlines"),
        ("async function f() { throw new RangeError('far') }\nf()", "runtime", "RangeError", "far"),
        ("throw { a: 1 }", "runtime", "Error", "{ a: 1 }"),
        ("JSON.parse('{x')", "runtime", "SyntaxError", ""),  # Node's wording changes between versions
        ("import 'nowhere'", "runtime", "Error", "Cannot find package 'nowhere' imported from /sandbox/code/main.mjs"),
        ("console.error('Error: no'); process.exit(4)", "exit", None, "The program ended with exit code 4."),
    ],
)
def test_an_uncaught_error_is_reported(code: str, kind: str, name: str | None, message: str) -> None:
    error = cloche.run(code, language="javascript").error
    assert error is not None
    assert (error.kind, error.name) == (kind, name)
    assert error.message.startswith(message)


def test_a_syntax_error_has_its_place() -> None:
    result = cloche.run("const one = 1;\nconst two = ;\n", language="javascript")
    assert result.error is not None
    assert result.error.kind == "syntax"
    (found,) = result.diagnostics
    assert (found.file, found.line, found.column, found.message) == ("main.js", 2, 13, "Unexpected token ';'")


def test_garbage_is_collected_before_it_meets_the_limit() -> None:
    code = "for (let i = 0; i < 60; i++) new Array(1e6).fill(i + 0.5);\nconsole.log('done')"
    assert cloche.run(code, language="javascript", memory="96M").stdout == "done\n"
    kept = "const all = [];\nfor (;;) all.push(new Array(1e4).fill(all.length + 0.5));"
    error = cloche.run(kept, language="javascript", memory="128M").error
    assert error is not None
    assert error.kind == "memory"


@pytest.mark.parametrize("pattern", [manifest._COMMENT, manifest._LAST_COMMA], ids=["comment", "comma"])
def test_a_string_that_is_not_closed_is_read_once(pattern: re.Pattern[str]) -> None:
    """Otherwise every quote in it would begin a search for its end, and 250 KB would hold the server for minutes."""
    unclosed = '"' + '\\"' * 100
    found = pattern.search(unclosed)
    assert found is not None
    assert found[0] == unclosed
    assert manifest.read('"\\' * 100_000) == {}
    assert manifest.read('{"a": "x // \\" y", /* c */ "b": [1,],}') == {"a": 'x // " y', "b": [1]}
