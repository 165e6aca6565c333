"""Cells in JavaScript: state, modules, results, errors, and what a hostile one can do to its own kernel alone."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator

import pytest

import cloche
from cloche.model.events import Output, Shown

Run = Callable[..., cloche.Result]

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def js(box: cloche.Sandbox) -> Run:
    return lambda code, **options: box.run(code, language="javascript", **options)


@pytest.fixture
def small(jail: None) -> Iterator[cloche.Sandbox]:
    with cloche.Sandbox(memory="192M", timeout=20) as sandbox:
        yield sandbox


# --- state


def test_variables_functions_and_classes_last(js):
    js("let a = 1; const b = 2; var c = 3; function f() { return a + b + c } class K { get() { return f() } }")
    assert js("a += 1; new K().get()").text == "7"


def test_every_kind_of_declaration_may_be_repeated_as_any_other(js):
    js("let a = 1; const b = 1; class C {} function f() {} var v = 1")
    assert js("const a = 2; let b = 2; var C = 2; class f {} function v() {}\n[a, b, C, typeof f, typeof v]").text == (
        "[ 2, 2, 2, 'function', 'function' ]"
    )
    assert js("let a = 3, { b } = { b: 4 }, [C] = [5]; let f = 6, v = 7; [a, b, C, f, v]").text == "[ 3, 4, 5, 6, 7 ]"


def test_a_name_declared_twice_in_one_cell_is_a_syntax_error(js):
    result = js("let a = 1\nlet a = 2")
    assert (result.error.kind, result.error.name) == ("syntax", "SyntaxError")
    assert "'a' has already been declared" in result.error.message


def test_a_const_of_an_earlier_cell_may_be_assigned(js):
    js("const limit = 1")
    assert js("limit = 2; limit").text == "2"


def test_a_cell_that_fails_keeps_what_it_did_before(js):
    js("let before = 1; throw new Error('no'); let after = 2")
    assert js("before").text == "1"


def test_two_contexts_do_not_share_variables(box):
    one, two = (box.contexts.create(language="javascript") for _ in range(2))
    one.run("let x = 1; globalThis.g = 1")
    assert two.run("typeof x + typeof g").text == "'undefinedundefined'"
    assert one.run("x").text == "1"


def test_cells_are_counted(js):
    assert [js("1").execution_count, js("throw 1").execution_count, js("1").execution_count] == [1, 2, 3]


# --- language


def test_await_works_at_the_top(js):
    assert js("const v = await new Promise(done => setTimeout(done, 1, 5)); v + 1").text == "6"
    assert js("let sum = 0; for await (const x of [1, Promise.resolve(2)]) sum += x; sum").text == "3"
    assert js("v").text == "5"


def test_what_recent_javascript_has(js):
    js("class P { #x; static #n = 0; static { P.#n = 41 } static next() { return ++P.#n } has(o) { return #x in o } }")
    code = "[P.next(), new P().has(new P()), [1, 2].at(-1), Object.hasOwn({a: 1}, 'a'), null?.x ?? 'd', 1_000n ** 2n]"
    assert js(code).text == "[ 42, true, 2, true, 'd', 1000000n ]"
    assert js("let n = null; n ??= 3; /(?<y>\\d+)/.exec('in 2024').groups.y + n").text == "'20243'"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("{a: 1}", "{ a: 1 }"),
        ("{ let q = 1; q }", "1"),
        ("if (true) { 5 }", "5"),
        ("for (let i = 0; i < 3; i++) i * 2", "4"),
        ("#!/usr/bin/env node\n1", "1"),
        ("1;;;", "1"),
        ("`${`import x from 'y'`}` // import a from 'b'", "\"import x from 'y'\""),
        ("/import 'x'/.test('a') / 2", "0"),
        ("({ import: 1, export: 2 }).import", "1"),
        ("let s = 'const'; s", "'const'"),
        ("", None),
        ("// nothing", None),
        ("let z = 1", None),
        ("void 0", None),
    ],
)
def test_the_value_of_a_cell(js, code, text):
    result = js(code)
    assert result.ok
    assert result.text == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("null", "null"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("10n", "10n"),
        ("'a\\nb'", "'a\\nb'"),
        ("Symbol('s')", "Symbol(s)"),
        ("() => 1", "[Function (anonymous)]"),
        ("new Map([[1, {a: [2]}]])", "Map(1) { 1 => { a: [ 2 ] } }"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("(() => { const o = {}; o.o = o; return o })()", "<ref *1> { o: [Circular *1] }"),
        ("({ then(done) { done(5) } })", "{ then: [Function: then] }"),
    ],
)
def test_a_value_is_shown_as_node_shows_it(js, value, text):
    assert js(value).text == text


def test_unicode_goes_in_and_comes_out(js):
    result = js("const größe = 'zażółć 🎈'; console.log(größe); [...größe].length")
    assert (result.stdout, result.text) == ("zażółć 🎈\n", "8")


# --- modules


def test_every_form_of_import(js):
    code = """
    import fs from "fs"; import * as path from 'node:path'; import "os"
    import assert, { equal as same } from "assert"
    import {
      EOL,
    } from "os";
    [typeof fs.readFileSync, path.join('a', 'b'), typeof same, typeof assert, EOL]
    """
    assert js(code).text == "[ 'function', 'a/b', 'function', 'function', '\\n' ]"
    assert js("path.sep + (await import('os')).EOL.length + require('fs').constants.R_OK").text == "'/14'"


def test_modules_and_packages_below_the_workspace(box, js):
    box.files.write("/sandbox/local.mjs", "export const a = 1; export default 2")
    box.files.write("/sandbox/old.cjs", "exports.b = 3")
    box.files.write("/sandbox/data.json", '{"c": 4}')
    box.files.write("/sandbox/node_modules/pack/package.json", '{"main": "main.js"}')
    box.files.write("/sandbox/node_modules/pack/main.js", "exports.d = 5")
    code = "import two, { a } from './local.mjs'; import { d } from 'pack'; import { b } from './old.cjs'\n"
    assert js(code + "[two, a, b, d, require('./data.json').c, require('pack').d]").text == "[ 2, 1, 3, 5, 4, 5 ]"


def test_require_and_import_begin_at_the_working_directory(box, js):
    box.files.write("/sandbox/m.cjs", "module.exports = 'top'")
    box.files.write("/sandbox/deep/m.cjs", "module.exports = 'deep'")
    here = "[require('./m.cjs'), (await import('./m.cjs')).default, __dirname, import.meta.dirname]"
    assert js(here).text == "[ 'top', 'top', '/sandbox', '/sandbox' ]"
    assert js("process.chdir('deep'); " + here).text == "[ 'deep', 'deep', '/sandbox/deep', '/sandbox/deep' ]"
    js("const __dirname = 'mine'")
    assert js("__dirname").text == "'mine'"


def test_a_working_directory_that_is_gone_leaves_modules(js):
    js("const fs = require('fs'); fs.mkdirSync('gone'); process.chdir('gone'); fs.rmdirSync('/sandbox/gone')")
    assert js("require('path').sep + (await import('os')).EOL.length").text == "'/1'"


def test_what_cannot_be_imported_is_said(js):
    assert "Cannot find package 'left-pad'" in js("import pad from 'left-pad'").error.message
    assert "Cannot find module './none'" in js("require('./none')").error.message
    assert "does not provide an export named 'nope'" in js("import { nope } from 'fs'").error.message


# --- output


def test_console_writes_to_the_stream_that_it_does_in_node(js):
    result = js(
        "for (const m of ['log', 'info', 'debug', 'error', 'warn']) console[m](m, {a: 1}); console.table([[1]])"
    )
    assert result.stdout.startswith("log { a: 1 }\ninfo { a: 1 }\ndebug { a: 1 }\n┌")
    assert result.stderr == "error { a: 1 }\nwarn { a: 1 }\n"


def test_output_and_displays_keep_their_order(jail):
    with cloche.Sandbox() as box:
        code = "console.log(1); display('a'); console.error(2); display('b'); process.stdout.write('3'); 'c'"
        seen = []
        for event in box.stream(code, language="javascript"):
            if isinstance(event, Output):
                seen.append(event.data.decode().strip())
            elif isinstance(event, Shown):
                seen.append(event.result.text)
    assert seen == ["1", "'a'", "2", "'b'", "3", "'c'"]


def test_children_write_where_the_cell_does(js):
    result = js("require('child_process').execSync('echo out; echo err >&2', {stdio: 'inherit'}); console.log('after')")
    assert (result.stdout, result.stderr) == ("out\nafter\n", "err\n")


def test_what_fires_after_the_cell_prints_into_the_next(js):
    js("globalThis.fired = new Promise(done => setTimeout(() => { console.log('late'); done() }, 20)); 1")
    assert js("await fired; console.log('now')").stdout == "late\nnow\n"


def test_bytes_are_passed_as_they_are(js):
    assert js("process.stdout.write(Buffer.from([0, 255, 254, 10]))").stdout_bytes == b"\0\xff\xfe\n"


def test_output_past_the_limit_ends_the_cell_alone(jail):
    with cloche.Sandbox(output="100K") as box:
        box.run("let kept = 1", language="javascript")
        result = box.run("for (;;) console.log('x'.repeat(1000))", language="javascript")
        assert (result.error.kind, result.truncated, len(result.stdout)) == ("output", True, 100 << 10)
        assert box.run("kept", language="javascript").text == "1"


# --- displays


def test_display_takes_values_and_mime_bundles(js):
    result = js("display({a: 1}); display({'text/html': '<b>x</b>', 'text/plain': 'x'}, {raw: true})")
    assert [shown.text for shown in result.results] == ["{ a: 1 }", "x"]
    assert result.results[1].html == "<b>x</b>"
    assert not any(shown.is_main for shown in result.results)


def test_plain_data_comes_as_json_too(js):
    assert js("({a: [1, 'x', null, true], d: new Date(0)})").results[0].json == {
        "a": [1, "x", None, True],
        "d": "1970-01-01T00:00:00.000Z",
    }
    assert js("new Map()").results[0].json is None


def test_pictures_come_as_pictures(js):
    shown = js(f"Buffer.from('{PNG}', 'base64')").results[0]
    assert shown.data("image/png") == base64.b64decode(PNG)


def test_objects_that_describe_themselves_are_asked(js):
    result = js("({ async [Symbol.for('Jupyter.display')]() { return { 'text/markdown': '# hi' } } })")
    assert result.results[0].markdown == "# hi"
    assert js("({ [Symbol.for('cloche.display')]() { throw new Error('no') } })").text.endswith(
        "[displaying it failed: no]"
    )


def test_five_megabytes_of_a_result_are_bounded_and_whole_as_json(js):
    result = js("({ text: 'x'.repeat(5e6) })").results[0]
    assert len(result.json["text"]) == 5_000_000
    assert len(result.text) < 20_000
    assert js("'x'.repeat(5e6)").text.endswith("[… cut at 1048576 bytes]")


@pytest.mark.parametrize(
    "value",
    [
        "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getPrototypeOf() { throw 3 } })",
        "({ get a() { throw new Error('getter') }, get then() { throw new Error('then') } })",
        "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('custom') } })",
        "({ toString() { throw 1 }, [Symbol.toPrimitive]() { throw 2 }, toJSON() { throw 3 } })",
        "let deep = {}; for (let i = 0; i < 1e5; i++) deep = { deep }; deep",
        "let list = []; for (let i = 0; i < 1e5; i++) list = [list]; list",
        "new Array(4e9)",
        "new Proxy(new Error('p'), { get() { throw 2 } })",
    ],
)
def test_a_hostile_value_costs_its_own_display_at_most(js, value):
    assert js(value).ok
    assert js("1").text == "1"


@pytest.mark.parametrize(
    "thrown",
    [
        "new Proxy(new Error('p'), { get() { throw 2 } })",
        "Object.assign(Object.create(Error.prototype), { get stack() { throw 1 }, get message() { throw 1 } })",
        "{ toString() { throw 1 } }",
        "null",
        "undefined",
        "Symbol('s')",
    ],
)
def test_whatever_is_thrown_is_reported(js, thrown):
    assert js(f"throw {thrown}").error.kind == "runtime"
    assert js("1").text == "1"


def test_a_value_that_never_ends_showing_itself_is_interrupted(js):
    js("let kept = 1")
    result = js("({ [Symbol.for('nodejs.util.inspect.custom')]() { for (;;); } })", timeout=0.3)
    assert (result.error.kind, result.restarted) == ("timeout", False)
    assert js("kept").text == "1"


def test_a_cell_that_changes_the_language_leaves_the_kernel_alone(js):
    js("JSON.stringify = JSON.parse = () => 'bad'; Buffer.from = null; Object.prototype.polluted = 1")
    js("Error.stackTraceLimit = 0; Error.prepareStackTrace = () => { throw 1 }; require('fs').writeSync = null")
    js("globalThis.process = null")
    assert js("console.log(1); ({a: 1})").stdout == "1\n"
    assert js("throw new RangeError('still told')").error.name == "RangeError"


def test_names_that_the_kernel_uses_may_be_declared(js):
    js("let process = 1, Buffer = 2, JSON = 3, Symbol = 4, Map = 5, Set = 6, Promise = 7, Object = 8, setImmediate = 9")
    assert js("let String = 10, Number = 11, Array = 12, Atomics = 13; console.log('here'); [process]").text == "[ 1 ]"
    assert js("await 1; null.x").error.name == "TypeError"
    assert js("let Error = 1; Error").text == "1"


# --- errors


def test_an_error_shows_the_line_and_nothing_of_the_kernel(js):
    js("function inner(x) {\n  return x.missing.thing\n}")
    error = js("import os from 'os'\nimport {\n  join\n} from 'path'\n\ninner({})").error
    assert (error.kind, error.name) == ("runtime", "TypeError")
    assert error.message == "Cannot read properties of undefined (reading 'thing')"
    assert error.traceback == (
        "cell-1.js:2\n  return x.missing.thing\n                   ^\n\n"
        "TypeError: Cannot read properties of undefined (reading 'thing')\n"
        "    at inner (cell-1.js:2:20)\n    at cell-2.js:6:1"
    )
    assert error.traceback_ansi


@pytest.mark.parametrize(
    "code",
    [
        "await 1\nthrow new Error('x')",
        "const f = async () => {\n  throw new Error('x') }; await f()",
        "setTimeout(() => {\n  throw new Error('x') }, 1); await new Promise(() => {})",
        "process.nextTick(() => {\n  throw new Error('x') })",
        "queueMicrotask(() => {\n  throw new Error('x') })",
        "Promise.resolve().then(() => {\n  throw new Error('x') })",
        "new Promise((_, no) =>\n  no(new Error('x')))",
        "require('fs').readFile('/etc/passwd', () => {\n  throw new Error('x') }); await new Promise(() => {})",
    ],
)
def test_errors_that_come_later_name_their_line_too(js, code):
    error = js(code).error
    assert (error.kind, error.message) == ("runtime", "x")
    assert "cell-1.js:2:" in error.traceback
    assert "/opt/kernels" not in error.traceback


def test_a_rejection_that_is_handled_is_none(js):
    assert js("const p = Promise.reject(new Error('x')); p.catch(() => {}); 1").ok


def test_a_cause_and_properties_are_shown(js):
    error = js("throw Object.assign(new Error('outer', { cause: new Error('inner') }), { code: 'E7' })").error
    assert "inner" in error.traceback
    assert "E7" in error.traceback


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("let a = 1\nlet b = ;", "cell-1.js:2\nlet b = ;\n        ^"),
        ("import fs from 'fs'\n\nlet b = (1", "cell-1.js:3"),
        ("function f() {\n", "cell-1.js:"),
        ("'unclosed", "cell-1.js:1"),
        ("return 5", "cell-1.js:1"),
    ],
)
def test_what_cannot_be_read_is_a_syntax_error_at_its_line(js, code, place):
    error = js(code).error
    assert (error.kind, error.name) == ("syntax", "SyntaxError")
    assert error.traceback.startswith(place)


def test_data_that_cannot_be_parsed_names_the_line_that_did(js):
    error = js("const text = '{'\nJSON.parse(text)").error
    assert error.name == "SyntaxError"
    assert "cell-1.js:2" in error.traceback


def test_a_stack_that_overflows_is_an_error(js):
    assert js("(function again() { again() })()").error.name == "RangeError"
    assert js("1").text == "1"


# --- ends


@pytest.mark.parametrize(
    ("code", "number"),
    [("process.exit(3)", 3), ("process.exit('5')", 5), ("process.exitCode = 4", 4), ("process.reallyExit(6)", 6)],
)
def test_exit_ends_the_cell_with_its_code(js, code, number):
    js("let kept = 1")
    result = js(f"{code}; kept = 2")
    assert (result.error.kind, result.exit_code, result.restarted) == ("exit", number, False)
    assert js("typeof kept").text == "'number'"


def test_exit_without_a_code_is_fine_and_runs_nothing_after(js):
    result = js("try { process.exit() } finally { console.log('no') }")
    assert (result.ok, result.stdout) == (True, "")


@pytest.mark.parametrize(
    "code",
    [
        "for (;;);",
        "await new Promise(() => {})",
        "await (async () => { await 1; for (;;); })()",
        "setTimeout(() => { for (;;); }); await new Promise(() => {})",
        "process.on('SIGINT', () => {}); for (;;);",
        "try { for (;;); } catch {} finally { for (;;); }",
        "require('child_process').execSync('sleep 20')",
    ],
)
def test_a_timeout_ends_the_cell_and_keeps_the_state(js, code):
    js("let kept = 1")
    result = js(code, timeout=0.3)
    assert (result.error.kind, result.exit_code, result.restarted) == ("timeout", 124, False)
    assert js("kept").text == "1"


def test_node_is_interrupted_before_the_process_that_it_waits_for(js):
    """Node can crash if it is interrupted in the moment in which its script fails because that process was."""
    waits = "trap 'date +%s.%N; exit' INT; for i in $(seq 200); do sleep 0.1; done"
    js("const { execSync } = require('child_process')")
    begin = time.time()
    interrupted = js(f"execSync({waits!r}, {{ stdio: 'inherit' }})", timeout=1).stdout
    assert float(interrupted) - begin > 1 + 0.1


def test_processes_in_the_background_of_an_interrupted_cell_are_interrupted(js):
    js("""const waiting = require('child_process').spawn('sleep', ['20'])
          const ended = new Promise((done) => waiting.on('exit', (code, signal) => done(signal)))""")
    assert js("for (;;);", timeout=0.3).error.kind == "timeout"
    assert js("await ended").text == "'SIGINT'"


@pytest.mark.parametrize(
    ("code", "signal"), [("process.abort()", "SIGABRT"), ("process.kill(process.pid, 'SIGKILL')", "SIGKILL")]
)
def test_a_crash_is_told_and_the_next_cell_has_a_new_kernel(js, code, signal):
    js("let gone = 1")
    result = js(code)
    assert (result.error.kind, result.restarted) == ("killed", True)
    assert signal in result.error.message
    assert js("typeof gone").text == "'undefined'"


@pytest.mark.parametrize("code", ["fs.writeSync(3, 'garbage'.repeat(100))", "fs.closeSync(3)"])
def test_a_cell_that_breaks_into_the_kernels_control_harms_its_own_kernel_alone(box, js, code):
    other = box.contexts.create(language="javascript")
    other.run("let kept = 1")
    result = js(f"const fs = require('fs'); {code}; 1", timeout=5)
    assert (result.error.kind, result.restarted) == ("killed", True)
    assert js("2").text == "2"
    assert other.run("kept").text == "1"


def test_a_frame_that_a_cell_imitates_changes_nothing_but_its_own_results(js):
    frame = "const h = Buffer.alloc(9); h.writeUInt32BE(2, 0); h.writeUInt32BE(1, 4); h[8] = 19"
    js(f"{frame}; require('fs').writeSync(3, Buffer.concat([h, Buffer.from('{{}}')])); 1")
    assert js("2").text == "2"


def test_a_kernel_that_stops_itself_is_ended_in_time(js):
    js("0")  # it has begun
    result = js("process.kill(process.pid, 'SIGSTOP')", timeout=1)
    assert (result.error.kind, result.restarted) == ("timeout", True)
    assert js("1").text == "1"


@pytest.mark.parametrize("piece", ["new Array(1e5).fill(1.5)", "Buffer.alloc(1e7, 1)"])
def test_memory_past_the_limit_is_told(small, piece):
    result = small.run(f"let all = []; for (;;) all.push({piece})", language="javascript")
    assert (result.error.kind, result.restarted) == ("memory", True)
    assert small.run("1", language="javascript").text == "1"


# --- what it is given


def test_input_is_found_in_every_usual_way(js):
    assert js("require('fs').readFileSync(0, 'utf8')", stdin="a\n").text == "'a\\n'"
    assert js("require('fs').readFileSync('/dev/stdin', 'utf8')", stdin="b").text == "'b'"
    assert js("let all = ''; for await (const part of process.stdin) all += part; all", stdin="c\nd").text == "'c\\nd'"
    lines = "for await (const line of require('readline').createInterface({ input: process.stdin })) console.log(line)"
    assert js(lines, stdin="e\nf").stdout == "e\nf\n"
    assert js("[prompt('q?'), prompt(), prompt()]", stdin="g\nh\n").text == "[ 'g', 'h', null ]"
    assert js("require('child_process').execSync('cat').toString()", stdin="i").ok


def test_without_input_there_is_none_and_nobody_waits(js):
    assert js("require('fs').readFileSync(0, 'utf8') + prompt()", timeout=5).text == "'null'"


def test_the_environment_of_a_run_is_its_own(js):
    assert js("process.env.GIVEN", env={"GIVEN": "1"}).text == "'1'"
    assert js("process.env.GIVEN").text is None


def test_nothing_of_the_host_or_the_kernel_is_in_the_environment(js, monkeypatch):
    monkeypatch.setenv("HOST_SECRET", "s3cret")
    names = js("Object.keys(process.env)").results[0].json
    assert "HOST_SECRET" not in names
    ours = [name for name in names if name.startswith("CLOCHE_")]
    assert ours == ["CLOCHE_NETWORK"]  # says that there is none


def test_tools_are_called_and_answer_or_fail(jail):
    def fail() -> None:
        raise ValueError("no such luck")

    with cloche.Sandbox(tools={"add": lambda a, b: a + b, "fail": fail}) as box:
        result = box.run(
            "await Promise.all([cloche.tools.add(1, 2), cloche.tools.add('a', 'b')])", language="javascript"
        )
        assert result.text == "[ 3, 'ab' ]"
        assert [call.name for call in result.tool_calls] == ["add", "add"]
        error = box.run("await cloche.tools.add(1, 2)\nawait cloche.tools.fail()", language="javascript").error
        assert (error.name, error.message) == ("ToolError", "no such luck")
        assert "cell-2.js:2" in str(error.traceback)
        assert box.run("Object.keys(cloche.tools)", language="javascript").text == "[ 'add', 'fail' ]"


def test_without_node_it_is_said_what_is_missing(box):
    context = box.contexts.create(language="javascript", env={"PATH": "/nonexistent"})
    error = context.run("1").error
    assert error.kind == "unavailable"
    assert "node" in error.message
    assert "Install it" in error.hint
    assert box.run("1", language="javascript").text == "1"
