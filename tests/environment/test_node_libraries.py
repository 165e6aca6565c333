"""The packages for Node that the environment has are found by programs, cells and commands, and yield to others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from scripts.docs_tables import reasons_of_node_packages

import cloche
from cloche import environment

# By package: a binding for an import, and an expression that uses it.
USES = {
    "axios": ("axios", "axios.getUri({ url: '/a', params: { b: 1 } })", "/a?b=1"),
    "cheerio": ("* as cheerio", "cheerio.load('<p>fern</p>')('p').text()", "fern"),
    "d3": ("* as d3", "d3.scaleLinear().domain([0, 10]).range([0, 100])(5)", "50"),
    "date-fns": ("{ addDays, formatISO }", "formatISO(addDays(new Date(2026, 0, 31), 1)).slice(0, 10)", "2026-02-01"),
    "dayjs": ("dayjs", "dayjs('2026-01-31').add(1, 'month').format('YYYY-MM-DD')", "2026-02-28"),
    "express": ("express", "typeof express().get", "function"),
    "js-yaml": ("{ load }", "JSON.stringify(load('a: [1, 2]'))", '{"a":[1,2]}'),
    "lodash": ("_", "_.chunk([1, 2, 3], 2).length", "2"),
    "mathjs": ("{ evaluate }", "evaluate('2 inch to cm').toString()", "5.08 cm"),
    "papaparse": ("Papa", "JSON.stringify(Papa.parse('a,b\\n1,2').data)", '[["a","b"],["1","2"]]'),
    "uuid": ("{ v7, validate }", "validate(v7())", "true"),
    "ws": ("{ WebSocketServer }", "typeof WebSocketServer", "function"),
    "zod": ("{ z }", "z.object({ a: z.number() }).parse({ a: 1 }).a", "1"),
}
IMPORTS = "".join(f"import {binding} from '{name}';\n" for name, (binding, _, _) in USES.items())
SHOWN = "".join(f"console.log(String({expression}));\n" for _, expression, _ in USES.values())
PRINTED = "".join(f"{printed}\n" for _, _, printed in USES.values())
# Older Nodes cannot `require` a package that consists of ES modules alone, as d3 does.
REQUIRES = """
const names = process.features.require_module ? [...NAMES, 'd3'] : NAMES;
console.log(names.filter((name) => !require(name)).length, require('lodash').sum([1, 2]));
""".replace("NAMES", json.dumps([name for name in USES if name != "d3"]))
OWN = {"node_modules/lodash/package.json": '{"name": "lodash", "main": "own.js"}'}
OWN |= {"node_modules/lodash/own.js": "module.exports = 'my own';"}


@pytest.fixture(scope="module")
def box(jail: None) -> Iterator[cloche.Sandbox]:
    """One sandbox for all."""
    if not environment.manifest(environment.location()).get("node_packages"):
        pytest.skip("the environment was built without Node")
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    with cloche.Sandbox(timeout=60) as box:
        yield box


def test_every_package_with_a_reason_is_tried():
    assert USES.keys() == reasons_of_node_packages().keys()


def test_a_program_imports_and_requires_them(box):
    assert box.run_program(IMPORTS + SHOWN, language="javascript").stdout == PRINTED
    assert box.run_program(REQUIRES, language="javascript").stdout == "0 3\n"


def test_a_cell_imports_and_requires_them(box):
    result = box.run(IMPORTS + SHOWN, language="javascript", context=box.contexts.create(language="javascript"))
    assert (result.stdout, result.error) == (PRINTED, None)
    result = box.run(REQUIRES, language="javascript", context=box.contexts.create(language="javascript"))
    assert (result.stdout, result.error) == ("0 3\n", None)


@pytest.mark.usefixtures("box")
def test_a_program_in_typescript_imports_them_with_their_types():
    # In a sandbox of its own: the check of all of them at once needs memory that the cells above still hold.
    result = cloche.run(IMPORTS + SHOWN, language="typescript", timeout=60)
    assert (result.stdout, result.error, result.diagnostics) == (PRINTED, None, ())


@pytest.mark.parametrize("name", USES)
def test_the_types_of_a_package_are_those_that_it_has(box, name):
    """A wrong use is found, so the import is not of the type `any`."""
    binding = USES[name][0]
    word = binding.strip("{} ").split(",")[0].removeprefix("* as ")
    wrong = f"import {binding} from '{name}';\nexport const wrong = {word}.thisDoesNotExist;\n"
    result = box.run_program(wrong, language="typescript", check="block")
    assert {each.code for each in result.diagnostics} & {"TS2339", "TS2551"}, result


def test_a_command_imports_and_requires_them(box):
    box.files.write("temp/all.mjs", IMPORTS + SHOWN)
    box.files.write("temp/all.cjs", REQUIRES)
    assert box.commands.run("node temp/all.mjs").stdout == PRINTED
    assert box.commands.run("node temp/all.cjs").stdout == "0 3\n"
    assert box.commands.run("""node -e "console.log(require('lodash').sum([1, 2]))" """).stdout == "3\n"
    module = """node --input-type=module -e "import _ from 'lodash'; console.log(_.sum([1, 2]))" """
    assert box.commands.run(module, cwd="/tmp").stdout == "3\n"


@pytest.mark.parametrize("language", ["javascript", "typescript"])
@pytest.mark.parametrize("code", ["import own from 'lodash';\n", "const own = require('lodash');\n"])
@pytest.mark.usefixtures("box")
def test_the_packages_of_a_project_come_first(language, code):
    main = "main.js" if language == "javascript" else "main.ts"
    package = {"package.json": '{"type": "module"}'} if code.startswith("import") else {}
    files = {main: f"{code}console.log(own);\n", **package, **OWN}
    assert cloche.run(files=files, entry=main).stdout == "my own\n"


def test_they_cannot_be_changed(box):
    done = box.commands.run("echo broken > /node_modules/lodash/lodash.js")
    assert "Read-only file system" in done.stderr


def test_npm_takes_the_current_folder_for_a_new_project(box):
    """Without our own `npm`, it would take the root, where it finds the folder node_modules."""
    box.files.write("fresh/mine/package.json", '{"name": "mine", "version": "1.0.0", "main": "lib.js"}')
    box.files.write("fresh/mine/lib.js", "module.exports = 'installed';")
    done = box.commands.run(
        "mkdir app && cd app && npm install ../mine && ls && node -p 'require(\"mine\")'", cwd="/sandbox/fresh"
    )
    assert done.stdout.endswith("node_modules\npackage-lock.json\npackage.json\ninstalled\n"), done.stderr
    assert box.commands.run("/usr/bin/env npm prefix", cwd="/sandbox/fresh").stdout == "/sandbox/fresh\n"
    assert box.commands.run("npm prefix", cwd="/sandbox/fresh/app/node_modules").stdout == "/sandbox/fresh/app\n"
