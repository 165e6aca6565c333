import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { DisplayAnswer, ErrorAnswer } from "../../api/schema";
import { copyOf, MAX_CELLS, newCell, notebookOf, recognized, textOf, withKind, withOutputs, withSource, type Cell, type Notebook } from "./format";
import { Collected, shownOutputs } from "./outputs";
import { elementsOf, membersOf } from "./raw";
import { notebookFrom, scriptOf } from "./script";

/** As Jupyter writes it, with fields that this page does not know and numbers that JavaScript would write otherwise. */
const file = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aa11",
   "metadata": {
    "tags": []
   },
   "source": [
    "# Title \\"quoted\\"\\n",
    "text \\\\"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "bb22",
   "metadata": {
    "10": 1.0,
    "2": 12345678901234567890
   },
   "outputs": [
    {
     "data": {
      "application/x-unknown+json": {"a": [1.50, {}], "b": ",]}"},
      "text/plain": [
       "'é'"
      ]
     },
     "execution_count": 3,
     "metadata": {},
     "output_type": "execute_result"
    }
   ],
   "source": "one = 1"
  }
 ],
 "metadata": {
  "kernelspec": {
   "display_name": "Python 3 (ipykernel)",
   "language": "python",
   "name": "python3"
  },
  "unknown": -0.0
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`;

const at = ({ cells }: Notebook, index: number): Cell => cells[index] ?? expect.fail("no such cell");
const written = (notebook: Notebook): { cells: Record<string, unknown>[] } => JSON.parse(textOf(notebook)) as { cells: Record<string, unknown>[] };

describe("a notebook file", () => {
  it("comes back byte for byte, in any way of writing it", () => {
    expect(textOf(notebookOf(file))).toBe(file);
    const inOneLine = JSON.stringify(JSON.parse(file));
    expect(textOf(notebookOf(inOneLine))).toBe(inOneLine);
    const wide = JSON.stringify(JSON.parse(file), null, "\t");
    expect(textOf(notebookOf(wide))).toBe(wide);
  });

  it("changes only where a cell is changed", () => {
    const notebook = notebookOf(file);
    const changed = textOf({ ...notebook, cells: [withSource(notebook, at(notebook, 0), "a\n\nb"), at(notebook, 1)] });
    expect(changed).toBe(file.replace(`    "# Title \\"quoted\\"\\n",\n    "text \\\\"\n`, `    "a\\n",\n    "\\n",\n    "b"\n`));
    const run = withOutputs(notebook, withSource(notebook, at(notebook, 1), "two"), [], 4);
    const both = textOf({ ...notebook, cells: [at(notebook, 0), run] });
    expect(both).toContain('"10": 1.0,\n    "2": 12345678901234567890');
    expect(both).toContain('"source": "two"');
    expect(both).toContain('"outputs": []');
    expect(at(notebookOf(both), 1).count).toBe(4);
  });

  it("gives a cell of another kind the fields of that kind, and new cells ids where the file has them", () => {
    const notebook = notebookOf(file);
    const [text, code] = [withKind(notebook, at(notebook, 1), "markdown"), withKind(notebook, at(notebook, 0), "code")];
    const { cells } = written({ ...notebook, cells: [text, code, newCell(notebook, "raw", "x"), copyOf(notebook, text)] });
    expect(Object.keys(cells[0] ?? {})).toEqual(["cell_type", "id", "metadata", "source"]);
    expect(Object.keys(cells[1] ?? {})).toEqual(["cell_type", "execution_count", "id", "metadata", "outputs", "source"]);
    expect(new Set(cells.map((cell) => cell.id)).size).toBe(4);
    const older = file.replace('"nbformat_minor": 5', '"nbformat_minor": 4');
    expect(newCell(notebookOf(older.replace(/ *"id": .*\n/g, "")), "code").raw).not.toContain('"id"');
    // With ids, it was meant as 4.5; and what every cell must have is added.
    const odd = JSON.parse(textOf(notebookOf(older.replace(/ *"(id": "bb22|metadata": \{\s*"10[^}]*\}).*\n/g, "")))) as { nbformat_minor: number; cells: Cell[] };
    expect(odd).toMatchObject({ nbformat_minor: 5, cells: [{ id: "aa11" }, { id: expect.stringMatching(/^[0-9a-f]{8}$/) as string, metadata: {} }] });
  });

  it("that is none says why", () => {
    const refused = (text: string) => (reason: RegExp) => expect(() => notebookOf(text)).toThrow(reason);
    refused("{")(/not valid JSON/);
    refused("[]")(/not a JSON object/);
    refused('{"worksheets": []}')(/older than 4/);
    refused('{"nbformat": 5, "cells": []}')(/format 5/);
    refused('{"nbformat": 4}')(/no cells/);
    refused('{"nbformat": 4, "cells": [{}, 7]}')(/cell 2/);
    refused(`{"nbformat": 4, "cells": [${Array(MAX_CELLS + 1).fill("{}").join(",")}]}`)(/2,001 cells/);
    expect(notebookOf("").cells).toHaveLength(1);
    expect(notebookOf('{"nbformat": 4, "metadata": 3, "cells": [{"source": 5, "outputs": "x", "execution_count": "y"}]}').cells[0]?.source).toBe("");
  });

  it("of five megabytes is read and written in a moment, and one of a million brackets is no danger", () => {
    const picture = JSON.stringify({ cell_type: "code", execution_count: 1, id: "x", metadata: {}, outputs: [{ output_type: "display_data", data: { "image/png": "A".repeat(20_000) } }], source: [] });
    const large = `{"cells": [${Array(250).fill(picture).join(",")}], "nbformat": 4, "nbformat_minor": 5}`;
    const begin = process.cpuUsage();
    const notebook = notebookOf(large);
    textOf({ ...notebook, cells: notebook.cells.map((cell, index) => (index ? cell : withSource(notebook, cell, "x"))) });
    expect(process.cpuUsage(begin).user / 1000).toBeLessThan(1000);
    const deep = `{"cells": [{"cell_type": "code", "metadata": ${"[".repeat(1e6)}${"]".repeat(1e6)}, "outputs": [], "source": ""}], "nbformat": 4}`;
    expect(textOf(notebookOf(deep)).length).toBeGreaterThan(2e6);
  });

  it("that somebody else has changed keeps the cells that are known", () => {
    const before = notebookOf(file);
    const after = notebookOf(file.replace("one = 1", "one = 2").replace('"cells": [', '"cells": [\n  {"cell_type": "code", "source": "new"},'));
    const keys = recognized(before.cells, after.cells).map((cell) => cell.key);
    expect(keys.slice(1)).toEqual(before.cells.map((cell) => cell.key));
    expect(new Set(keys).size).toBe(3);
  });
});

it("parts of JSON end where they end", () => {
  expect(elementsOf('[ 1 , "a,]\\"" , {"b": [2, {}]}, [] ]')).toEqual(["1", '"a,]\\""', '{"b": [2, {}]}', "[]"]);
  expect(elementsOf(" [ ] ")).toEqual([]);
  expect(membersOf('{"a\\"b": 1, "\\\\": {"c": "}"}}')).toEqual([['a"b', "1"], ["\\", '{"c": "}"}']]);
});

const display = (mime: Record<string, unknown>, id: string | null = null): DisplayAnswer => ({ mime, metadata: {}, is_main: id === null, display_id: id });

describe("outputs", () => {
  it("of a run become those of a notebook", () => {
    const collected = new Collected();
    collected.take({ kind: "stdout", text: "lost\n" });
    collected.take({ kind: "clear" });
    collected.take({ kind: "stdout", text: "10 %\r20 %\r30 %\n" });
    collected.take({ kind: "stdout", text: "more" });
    collected.take({ kind: "stderr", text: "oh\n" });
    collected.take({ kind: "result", update: false, result: display({ "text/plain": "old" }, "d") });
    collected.take({ kind: "result", update: true, result: display({ "text/plain": "new\nline" }, "d") });
    collected.take({ kind: "result", update: false, result: display({ "text/html": "<b>", "application/vnd.cloche.table+json": { rows: [] }, "application/json": { a: 1 } }) });
    collected.take({ kind: "error", error: { kind: "exception", name: "ValueError", message: "no", hint: "", traceback_ansi: "a\nb" } as ErrorAnswer });
    expect(collected.outputs(7)).toEqual([
      { output_type: "stream", name: "stdout", text: ["30 %\n", "more"] },
      { output_type: "stream", name: "stderr", text: ["oh\n"] },
      { output_type: "display_data", data: { "text/plain": ["new\n", "line"] }, metadata: {} },
      { output_type: "execute_result", data: { "text/html": ["<b>"], "application/json": { a: 1 } }, metadata: {}, execution_count: 7 },
      { output_type: "error", ename: "ValueError", evalue: "no", traceback: ["a", "b"] },
    ]);
  });

  it("that are too large are kept in part", () => {
    const collected = new Collected();
    for (let times = 0; times < 100; times++) collected.take({ kind: "stdout", text: "x".repeat(50_000) });
    for (let times = 0; times < 5; times++) collected.take({ kind: "result", update: false, result: display({ "image/png": "A".repeat(700_000), "text/plain": "<Figure>" }) });
    const outputs = collected.outputs(1);
    expect(JSON.stringify(outputs).length).toBeLessThan(3 << 20);
    expect(JSON.stringify(outputs[0])).toContain("output left out");
    expect(JSON.stringify(outputs.at(-1))).toMatch(/<Figure>.*too large to be saved/);
  });

  it("of any form are shown, or left out", () => {
    const shown = shownOutputs([null, 3, { output_type: "stream", name: "x", text: ["a", 1, "b\n"] }, { output_type: "error", ename: 5, traceback: "no" }, { output_type: "display_data", data: [] }, { data: { "text/plain": "x" } }]);
    expect(shown.map((piece) => piece.type)).toEqual(["text", "error", "display"]);
    expect(shownOutputs(Array(5000).fill({ data: {} }))).toHaveLength(1000);
  });
});

describe("a script", () => {
  const script = "# %% [markdown]\n# # Title\n#\n# text\n\n# %% load\nimport math\n\n\nx = 1\n\n# %%\n%time x\n";

  it("becomes a notebook, and a script again", () => {
    const text = notebookFrom(script, "python");
    const notebook = notebookOf(text);
    expect(notebook.cells.map(({ kind, source }) => [kind, source])).toEqual([["markdown", "# Title\n\ntext"], ["code", "import math\n\n\nx = 1"], ["code", "%time x"]]);
    expect(scriptOf(notebook, "python")).toBe(script);
    expect(notebookFrom(scriptOf(notebook, "python"), "python").replace(/"id": ".*"/g, "")).toBe(text.replace(/"id": ".*"/g, ""));
    expect(notebookOf(notebookFrom("", "python")).cells).toHaveLength(1);
    expect(notebookOf(notebookFrom("let a = 1;\r\n// %% two\r\nlet b;\r\n", "javascript")).cells.map((cell) => cell.source)).toEqual(["let a = 1;", "let b;"]);
  });

  const corpus = new URL("../../../../../shared/corpora/notebooks/public.json", import.meta.url);
  it.skipIf(!existsSync(corpus))("of every conversation in the corpus keeps its code", () => {
    const { conversations } = JSON.parse(readFileSync(corpus, "utf8")) as { conversations: { cells: { code: string }[] }[] };
    expect(conversations.length).toBeGreaterThan(40);
    for (const { cells } of conversations) {
      const empty = notebookOf("");
      const notebook = { ...empty, cells: cells.map(({ code }) => newCell(empty, "code", code)) };
      const read = notebookOf(textOf(notebook));
      expect(read.cells.map((cell) => cell.source)).toEqual(cells.map(({ code }) => code));
      const again = notebookOf(notebookFrom(scriptOf(read, "python"), "python"));
      expect(again.cells.map((cell) => cell.source)).toEqual(cells.map(({ code }) => code.replace(/^(?:[ \t]*\n)+|\s+$/g, "")));
    }
  });
});
