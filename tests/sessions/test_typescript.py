"""Cells in TypeScript: types are taken away, and the rest runs where JavaScript's cells run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import cloche

Run = Callable[..., cloche.Result]


@pytest.fixture
def ts(box: cloche.Sandbox) -> Run:
    return lambda code, **options: box.run(code, language="typescript", **options)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("let n: number = 3; n * 2", "6"),
        ("interface A { a: number }; type B = A & { b?: string }; const v: B = { a: 1 }; v", "{ a: 1 }"),
        ("function first<T extends unknown[]>(list: T): T[0] { return list[0] } first<number[]>([7])", "7"),
        ("const same = <T,>(x: T): T => x; same(4) as number satisfies number", "4"),
        ("enum Color { Red = 1, Green } [Color.Green, Color[1]]", "[ 2, 'Red' ]"),
        ("const enum Word { A = 'a' } Word.A", "'a'"),
        ("namespace N { export const a = 1; export namespace M { export const b = a + 1 } } N.M.b", "2"),
        (
            "class P { constructor(private x: number, readonly y = 2) {} sum = () => this.x + this.y } new P(1).sum()",
            "3",
        ),
        ("abstract class A { abstract f(): number } class B extends A { override f() { return 5 } } new B().f()", "5"),
        ("let late!: string; declare const nowhere: number; typeof late", "'undefined'"),
        ("const o: { a?: { b: number } } = {}; o.a?.b ?? o!.a", None),
        (
            "import type { Gone } from './nowhere'; import { type ParsedPath, join } from 'path'; join('a', 'b')",
            "'a/b'",
        ),
        ("import { readFileSync, PathLike } from 'fs'; typeof readFileSync", "'function'"),
        ("import os = require('os'); os.EOL", "'\\n'"),
        ("export interface I { a: 1 } export type T = string; export const w: T = 'w'; w", "'w'"),
        (
            "const wait = (ms: number): Promise<void> => new Promise(r => setTimeout(r, ms)); await wait(1); 'ok'",
            "'ok'",
        ),
    ],
)
def test_what_typescript_adds_is_taken_away_or_made_code_of(ts, code, text):
    result = ts(code)
    assert result.ok, result.error
    assert result.text == text


def test_variables_are_shared_with_javascript(box, ts):
    ts("const shared: number[] = [1]; enum E { A = 5 }")
    assert box.run("shared.push(E.A); shared", language="javascript").text == "[ 1, 5 ]"
    assert ts("(shared as number[]).length").text == "2"


def test_declarations_may_be_repeated(ts):
    ts("enum E { A } let x: number = 1; class C {}")
    assert ts("enum E { A = 2 } const x: string = 'x'; class C { c = 3 } [E.A, x, new C().c]").text == "[ 2, 'x', 3 ]"


@pytest.mark.parametrize(
    "first", ["interface A {\n  a: number\n}", "enum E {\n  A,\n}", "namespace N {\n  export const a = 1\n}"]
)
def test_an_error_names_the_line_that_was_written(ts, first):
    error = ts(f"{first}\n\nfunction fail(x: number): never {{\n  throw new Error('here')\n}}\nfail(1)").error
    assert (error.kind, error.message) == ("runtime", "here")
    assert error.traceback.startswith("cell-1.ts:6\n  throw new Error('here')\n        ^\n")
    assert "at fail (cell-1.ts:6:9)" in error.traceback
    assert "cell-1.ts:8:1" in error.traceback


def test_what_cannot_be_read_is_a_syntax_error_at_its_line(ts):
    error = ts("let a: number = 1\nlet b: = 2").error
    assert (error.kind, error.name) == ("syntax", "SyntaxError")
    assert error.traceback.startswith("cell-1.ts:2\nlet b: = 2\n       ^")
    assert "/opt" not in error.traceback


def test_types_are_not_checked(ts):
    assert ts("const n: number = 'a text' as any; n").text == "'a text'"
    assert ts("const m: number = 'wrong'; m").text == "'wrong'"


def test_a_timeout_keeps_the_state(ts):
    ts("let kept: number = 1")
    assert ts("while (true as boolean) {}", timeout=0.3).error.kind == "timeout"
    assert ts("kept").text == "1"


def test_without_its_compiler_it_is_said_and_javascript_goes_on(box):
    context = box.contexts.create(language="javascript", env={"CLOCHE_NODE_MODULES": "/nonexistent"})
    error = box.run("let a: number = 1", context=context, language="typescript").error
    assert error.kind == "runtime"
    assert error.message.startswith("TypeScript is not available")
    assert context.run("1").text == "1"
