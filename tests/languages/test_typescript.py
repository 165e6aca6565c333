"""TypeScript: it runs at once, is checked by its own compiler, and errors name the lines of its sources."""

from __future__ import annotations

import json

import pytest
from tests.languages.toolchains import needs

import cloche
from cloche.languages.typescript import checker

pytestmark = pytest.mark.usefixtures("jail")

WRONG = "const one: number = 'one';\nconsole.log(one);\n"


@pytest.fixture(autouse=True)
def _node() -> None:
    needs("typescript")


def test_wrong_types_are_reported_and_the_program_runs() -> None:
    result = cloche.run(WRONG, language="typescript")
    assert (result.stdout, result.error) == ("one\n", None)
    (found,) = result.diagnostics
    assert (found.file, found.line, found.column, found.severity, found.code) == ("main.ts", 1, 7, "error", "TS2322")
    assert found.message == "Type 'string' is not assignable to type 'number'."
    assert result.build_time is not None
    assert result.build_time > 0


def test_wrong_types_block_a_run_if_they_are_to() -> None:
    result = cloche.run(WRONG, language="typescript", check="block")
    assert result.stdout == ""
    assert result.error is not None
    assert result.error.kind == "syntax"
    assert [each.code for each in result.diagnostics] == ["TS2322"]
    well = cloche.run("console.log(1)", language="typescript", check="block")
    assert (well.stdout, well.error, well.diagnostics) == ("1\n", None, ())


def test_the_check_can_be_left_out() -> None:
    result = cloche.run(WRONG, language="typescript", check="off")
    assert (result.stdout, result.diagnostics) == ("one\n", ())


def test_what_is_no_mistake_in_a_snippet_is_not_reported() -> None:
    code = """
    const name = "n", status = 1; // globals of browsers
    let list = []; list.push(1);
    await Promise.resolve();
    for (const word of process.argv.slice(2)) console.log(word, name, status);
    console.log(list, require("node:os").EOL === "\\n");
    """
    result = cloche.run(code, language="typescript", args=["a b"])
    assert (result.stdout, result.error, result.diagnostics) == ("a b n 1\n[ 1 ] true\n", None, ())


def test_missing_types_are_reported_and_never_block() -> None:
    code = "function add(a, b) { return a + b }\nconsole.log(add(1, 2))\n"
    result = cloche.run(code, language="typescript", check="block")
    assert (result.stdout, result.error) == ("3\n", None)
    assert {(each.severity, each.code) for each in result.diagnostics} == {("warning", "TS7006")}
    assert cloche.run(code + WRONG, language="typescript", check="block").stdout == ""


def test_what_is_more_than_types_works() -> None:
    code = """
    enum Color { Red, Green }
    namespace Inner { export const value = 3; }
    class Point { constructor(private readonly x: number) {} get double() { return this.x * 2; } }
    function log(target: any, key: string, descriptor: PropertyDescriptor) {
        const original = descriptor.value;
        descriptor.value = function (this: any) { console.log("called", key); return original.apply(this); };
    }
    class Old { @log method() { return 1; } }
    console.log(Color[1], Inner.value, new Point(2).double, new Old().method());
    """
    result = cloche.run(code, language="typescript")
    assert (result.stdout, result.error, result.diagnostics) == ("called method\nGreen 3 4 1\n", None, ())


@pytest.mark.parametrize(
    "context", ["context: ClassDecoratorContext", "context: any", "{ name }: ClassDecoratorContext"]
)
def test_decorators_are_the_standards(context: str) -> None:
    name = "name" if "name" in context else "context.name"
    code = f"function seen(target: any, {context}) {{ console.log({name}) }}\n@seen class New {{}}"
    result = cloche.run(code, language="typescript")
    assert (result.stdout, result.diagnostics) == ("New\n", ())


def test_errors_of_all_files_point_at_their_lines() -> None:
    files = {
        "main.ts": "import { fail } from './lib/fail';\n\ninterface Unused { a: number }\nfail();\n",
        "lib/fail.ts": "type Unused = string;\n\nexport function fail(): never {\n  throw new RangeError('far');\n}\n",
    }
    result = cloche.run(files=files, language=None)
    assert result.error is not None
    assert (result.error.kind, result.error.name, result.error.message) == ("runtime", "RangeError", "far")
    assert "at fail (/sandbox/lib/fail.ts:4:9)" in result.stderr
    assert "/sandbox/main.ts:4:1" in result.stderr


def test_files_of_a_project_know_where_they_are() -> None:
    where = "[import.meta.url, __filename, __dirname, require.main === module]"
    files = {
        "package.json": '{"type": "module"}',
        "src/index.ts": f"import {{ there }} from './deep/there.js';\nconsole.log(JSON.stringify([{where}, there]));\n",
        "src/deep/there.ts": f"await null;\nexport const there = {where};\n",
    }
    result = cloche.run(files=files, language=None)
    assert result.diagnostics == ()
    assert json.loads(result.stdout) == [
        ["file:///sandbox/src/index.ts", "/sandbox/src/index.ts", "/sandbox/src", True],
        ["file:///sandbox/src/deep/there.ts", "/sandbox/src/deep/there.ts", "/sandbox/src/deep", False],
    ]


def test_a_projects_own_configuration_counts_even_an_old_one() -> None:
    options: dict[str, object] = {
        "target": "es5",
        "moduleResolution": "node",
        "baseUrl": "./src",
        "paths": {"@lib/*": ["lib/*"]},
    }
    options |= {"noImplicitAny": True, "strictNullChecks": False}
    main = """import { two } from '@lib/two';
    import { three } from 'lib/three';
    import data from './data.json';
    const none: string = null;
    function f(untyped) { return untyped }
    console.log(two, three, data.four, f(none));
    """
    files = {
        "tsconfig.json": f'{{ // as people have it\n  "compilerOptions": {json.dumps(options)},\n}}',
        "src/main.ts": main,
        "src/lib/two.ts": "export const two = 2;",
        "src/lib/three.ts": "export const three = 3;",
        "src/data.json": '{"four": 4}',
        "src/unused.test.ts": "this is not even TypeScript",
    }
    result = cloche.run(files=files, language=None)
    assert (result.stdout, result.error) == ("2 3 4 null\n", None)
    assert [(each.file, each.line, each.code) for each in result.diagnostics] == [("src/main.ts", 5, "TS7006")]


def test_a_package_that_is_not_there_is_named() -> None:
    result = cloche.run("import _ from 'lodahs';\nconsole.log(_);\n", language="typescript")
    assert result.error is not None
    assert "package 'lodahs' was not found" in result.error.message
    assert (result.diagnostics[0].line, result.diagnostics[0].column) == (1, 15)


def test_the_smaller_declarations_are_given_to_those_only_whom_they_suffice() -> None:
    """Every global of Node is declared in the file that is chosen for a program that names it."""
    listed = cloche.run("console.log(Object.getOwnPropertyNames(globalThis).join(' '))", language="javascript")
    chosen: dict[str, list[str]] = {}
    for name in set(listed.stdout.split()) - {
        "Performance",
        "WebAssembly",
    }:  # @types/node does not declare these either
        chosen.setdefault(checker.declarations(name), []).append(name)
    assert len(chosen) == 3
    assert {"console", "setTimeout"} <= set(chosen[checker.ESSENTIALS])
    for names in chosen.values():
        code = "".join(f"void {name};\n" for name in names)
        result = cloche.run(code, language="typescript")
        assert [each.message for each in result.diagnostics] == []


def test_a_source_without_end_is_a_limit() -> None:
    result = cloche.run("import zero from '/dev/zero';\nconsole.log(zero);\n", language="typescript", memory="128M")
    assert result.error is not None
    assert result.error.kind == "memory"


def test_an_import_by_require_is_no_error() -> None:
    code = 'import fs = require("node:fs");\nimport { sep } from "node:path";\nconsole.log(fs.existsSync(sep));\n'
    result = cloche.run(code, language="typescript", check="block")
    assert (result.stdout, result.diagnostics) == ("true\n", ()), result.stderr
