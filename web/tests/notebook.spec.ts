import { spawnSync } from "node:child_process";
import { serious } from "./axe";
import { expect, test, type Person } from "./bench";
import { python } from "./serve";

interface Cell {
  cell_type: string;
  source: string[];
  metadata: unknown;
  execution_count?: number | null;
  outputs?: { output_type: string; text?: string[]; ename?: string; data?: Record<string, unknown> }[];
}

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const FOREIGN = `   "metadata": {
    "unknown": 1.0
   },
   "outputs": [
    {
     "data": {
      "text/html": [
       "<b id=h>made elsewhere</b><script>document.getElementById('h').textContent = origin</script>"
      ]
     },
     "metadata": {},
     "output_type": "display_data"
    }
   ],`;

/** As Jupyter writes it. */
const file = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aa",
   "metadata": {},
   "source": [
    "# Growth of ferns\\n",
    "\\n",
    "Heights follow $h = a\\\\sqrt{t}$, see the [notes](https://example.org/notes):\\n",
    "\\n",
    "| week | height |\\n",
    "|---|--:|\\n",
    "| 1 | **4** cm |\\n",
    "\\n",
    "![outside](https://example.org/fern.png) and a [trap](javascript:document.title='caught')"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 1,
   "id": "bb",
${FOREIGN}
   "source": [
    "display(table)"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 2,
   "id": "cc",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "printed \\u001b[31mlong ago\\u001b[0m\\n"
     ]
    },
    {
     "data": {
      "image/png": "${PIXEL}",
      "text/plain": [
       "<Figure>"
      ]
     },
     "metadata": {},
     "output_type": "display_data"
    }
   ],
   "source": [
    "import math\\n",
    "seed = 20  # from the file"
   ]
  }
 ],
 "metadata": {
  "kernelspec": {
   "display_name": "Python 3 (ipykernel)",
   "language": "python",
   "name": "python3"
  },
  "someone": "else's"
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
`;

const cells = (person: Person) => person.page.locator("[data-cell]");
const read = async (person: Person, path = "code/lab.ipynb"): Promise<Cell[]> => (JSON.parse(await person.file(path)) as { cells: Cell[] }).cells;
const open = async (person: Person, name: string): Promise<void> => {
  await person.page.getByRole("treeitem", { name }).click();
  await expect(person.page.getByRole("tab", { name })).toHaveAttribute("aria-selected", "true");
};

test("a notebook is shown, edited, run and saved, and what nobody touched stays as it was", async ({ person }) => {
  test.setTimeout(90_000);
  const { page } = person;
  await person.begin({ "code/main.py": "shared = 1\n", "code/lab.ipynb": file });
  await open(person, "lab.ipynb");

  // What the file has is shown, and what somebody has put into it has no origin.
  await expect(page.getByRole("heading", { name: "Growth of ferns" })).toBeVisible();
  await expect(page.locator(".katex").first()).toBeVisible();
  await expect(page.getByRole("cell", { name: "4 cm" })).toBeVisible();
  await expect(page.getByText("[picture: outside] and a trap")).toBeVisible();
  expect(await cells(person).nth(0).getByRole("link").allTextContents()).toEqual(["notes"]);
  await expect(cells(person).nth(1).frameLocator("iframe").locator("#h")).toHaveText("null");
  await expect(cells(person).nth(2).getByText("long ago")).toHaveCSS("color", "rgb(179, 38, 30)");
  await expect(cells(person).nth(2).getByRole("img")).toBeVisible();
  await expect(cells(person).nth(2).locator('[data-figure="count"]')).toHaveText("[2]");

  // Keys of Jupyter: down to the last cell, a new one below it, typed and run.
  await page.getByRole("heading", { name: "Growth of ferns" }).click();
  await expect(cells(person).nth(0)).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("j");
  await expect(cells(person).nth(2)).toBeFocused();
  await page.keyboard.press("Shift+Enter");
  await expect(cells(person).nth(2).locator('[data-figure="count"]')).toHaveText("[1]");
  await expect(cells(person)).toHaveCount(4);
  const editor = page.getByTestId("cell-editor").locator(".view-lines");
  await editor.waitFor();
  await page.keyboard.insertText("name = input('Who? ')\nprint('Hello', name, seed + 22)\nseed");
  await page.keyboard.press("Control+Enter");
  await cells(person).nth(3).getByLabel("Input for the program").fill("Ada");
  await page.keyboard.press("Enter");
  await expect(cells(person).nth(3)).toContainText("Hello Ada 42");
  await expect(cells(person).nth(3).locator('[data-figure="count"]')).toHaveText("[2]");

  // Another cell fails: those after it do not run. Keys move, change, delete and bring back.
  await cells(person).nth(3).focus();
  await page.keyboard.press("b");
  await expect(cells(person).nth(4)).toBeFocused();
  await page.keyboard.press("Enter");
  await editor.waitFor();
  await page.keyboard.insertText("def f(): return 1 / 0\n\nf()");
  await page.keyboard.press("Escape");
  await expect(cells(person).nth(4)).toBeFocused();
  await page.keyboard.press("Control+Shift+ArrowUp");
  await expect(cells(person).nth(3)).toContainText("1 / 0");
  await page.keyboard.press("a");
  await page.keyboard.press("m");
  await expect(cells(person).nth(3)).toHaveAttribute("data-cell", "markdown");
  await page.keyboard.press("d");
  await page.keyboard.press("d");
  await expect(cells(person)).toHaveCount(5);
  await page.keyboard.press("z");
  await expect(cells(person)).toHaveCount(6);
  await page.keyboard.press("x");
  await expect(cells(person)).toHaveCount(5);
  await cells(person).nth(3).focus();
  await page.keyboard.press("Shift+Enter");
  await expect(cells(person).nth(3).getByRole("alert")).toContainText("ZeroDivisionError");
  // The line that failed is marked and the one that called it, in the cell and in its editor, until the code changes.
  const failing = cells(person).nth(3).locator(".failing-line");
  await expect(failing).toHaveText(/1\s\/\s0$/);
  await expect(failing).toHaveAttribute("data-failure", "ZeroDivisionError: division by zero");
  await expect(cells(person).nth(3).locator(".calling-line")).toHaveText("f()");
  await person.shot("notebook-failing");
  await cells(person).nth(3).getByRole("button", { name: /line 1/ }).first().click();
  const failed = cells(person).nth(3).getByTestId("cell-editor");
  await expect(failed.locator(".failing-line")).toHaveCount(1);
  await expect(failed).toContainText("ZeroDivisionError: division by zero");
  await person.shot("notebook-failing-editor");
  await page.keyboard.press("Shift+End");
  await page.keyboard.insertText("# right");
  await expect(failed.locator(".failing-line, .calling-line")).toHaveCount(0);
  await page.keyboard.press("Escape");

  // Clicked code becomes an editor, which knows the names of the other cells.
  await cells(person).nth(2).getByText("from the file").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("\nimport time\nfor n in range(1000): print('tick', n, flush=True); time.sleep(0.1)");
  await page.getByRole("button", { name: "More about this notebook" }).click();
  await page.getByRole("menuitem", { name: "Run from here on" }).click();
  await expect(cells(person).nth(2)).toContainText("tick 3");
  await expect(cells(person).nth(4)).toHaveAttribute("data-state", "queued");
  // A run goes on while the page is away, and its cell shows it again; what waited for it does not begin by itself.
  await page.reload();
  await expect(cells(person).nth(2)).toContainText("tick 9");
  await page.getByRole("button", { name: "Stop the notebook" }).click();
  await expect(cells(person).nth(2).getByRole("alert")).toBeVisible();
  await expect(page.getByRole("button", { name: "Run all cells" })).toBeVisible();

  // Saved with outputs; the cell that nobody touched and the metadata are as they were.
  await person.saved();
  const saved = await person.file("code/lab.ipynb");
  expect(saved).toContain('"someone": "else\'s"');
  expect(saved.replace(/\n {3}"execution_count": .*/g, "")).toContain(FOREIGN);
  const found = await read(person);
  expect(found.map((cell) => cell.cell_type)).toEqual(["markdown", "code", "code", "code", "code"]);
  expect(found[2]?.outputs?.[0]).toMatchObject({ output_type: "stream", name: "stdout" });
  expect(found[3]?.outputs?.[0]).toMatchObject({ output_type: "error", ename: "ZeroDivisionError" });
  expect(found[4]).toMatchObject({ execution_count: 2, outputs: [{ text: ["Who? Ada\n", "Hello Ada 42\n"] }, { data: { "text/plain": ["20"] } }] });

  // Everything is there after a reload, from the file alone.
  await page.reload();
  await expect(cells(person).nth(4)).toContainText("Hello Ada 42");
  await expect(cells(person).nth(3).getByRole("alert")).toContainText("ZeroDivisionError");

  for (const [size, width, height] of [["desk", 1440, 900], ["phone", 390, 844]] as const) {
    await page.setViewportSize({ width, height });
    if (size === "phone") await page.getByRole("button", { name: "Code", exact: true }).first().click();
    for (const theme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme: theme });
      await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
      await cells(person).nth(0).scrollIntoViewIfNeeded();
      await page.waitForTimeout(200); // colours change softly, and are measured
      expect(await serious(page)).toEqual([]);
      await person.shot(`${theme}-${size}-notebook`);
    }
  }
});

test("scripts become notebooks and back; a broken notebook says so; others' changes come in", async ({ person }) => {
  const { page } = person;
  const script = "# %% [markdown]\n# # Title\n\n# %% load\nx = 1\n\n# %%\nx + 41\n";
  await person.begin({ "code/steps.py": script, "code/broken.ipynb": "{not json", "code/lab.ipynb": file });
  await page.keyboard.press("F1");
  await page.keyboard.type("script as a notebook");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("tab", { name: "steps.ipynb" })).toHaveAttribute("aria-selected", "true");
  await expect(cells(person)).toHaveCount(3);
  await page.getByRole("button", { name: "Run all cells" }).click();
  await expect(cells(person).nth(2)).toContainText("42");
  await person.saved();
  expect((await read(person, "code/steps.ipynb"))[2]).toMatchObject({ source: ["x + 41"], outputs: [{ output_type: "execute_result" }] });
  await page.getByRole("button", { name: "More about this notebook" }).click();
  const download = page.waitForEvent("download");
  await page.getByRole("menuitem", { name: "Download with outputs" }).click();
  expect((await download).suggestedFilename()).toBe("steps.ipynb");
  await page.getByRole("button", { name: "More about this notebook" }).click();
  await page.getByRole("menuitem", { name: /Save as a script/ }).click();
  await expect(page.getByRole("tab", { name: "steps-2.py" })).toHaveAttribute("aria-selected", "true");
  expect(await person.file("code/steps-2.py")).toBe(script);

  await open(person, "broken.ipynb");
  await expect(page.getByText("it is not valid JSON")).toBeVisible();
  await person.shot("notebook-broken");
  await page.getByRole("button", { name: "Edit as text" }).click();
  await expect(person.code).toContainText("not json");

  await open(person, "lab.ipynb");
  await expect(cells(person).nth(1).frameLocator("iframe").locator("#h")).toHaveText("null"); // what is below moves until then
  await cells(person).nth(2).getByText("from the file").click();
  const editor = page.getByTestId("cell-editor");
  await expect(editor).toContainText("from the file");
  await person.api.put(`/v1/sandboxes/${person.sandbox}/files/code/lab.ipynb`, { data: file.replace("from the file", "from an agent") });
  await expect(editor).toContainText("from an agent");
  // Both at once: the person decides.
  await page.route("**/files/**", (route) => (route.request().method() === "PUT" ? route.abort() : route.continue()));
  await page.keyboard.press("Control+Home");
  await page.keyboard.insertText("# mine\n");
  await person.api.put(`/v1/sandboxes/${person.sandbox}/files/code/lab.ipynb`, { data: file.replace("from the file", "from an agent, later") });
  await expect(page.getByText("Someone else changed this file")).toBeVisible();
  await page.unroute("**/files/**");
  await page.getByRole("button", { name: "Take theirs" }).click();
  await expect(editor).toContainText("from an agent, later");
  await expect(editor).not.toContainText("# mine");
  person.complaints.length = 0;
});

/** Cells that show everything a cell can, in all forms. */
const SHOWN = `import sys, json
from IPython.display import HTML, JSON, Latex, Markdown, SVG, clear_output, display
print("out"); print("error", file=sys.stderr); print("50 %\\r100 %")
display(HTML("<b>bold</b>"), Markdown("# m"), Latex("$x$"), JSON({"a": [1, None]}), JSON([1, 2]), SVG("<svg xmlns='http://www.w3.org/2000/svg'/>"))
display({"text/plain": "plain", "application/x-odd": {"of": "the user"}, "application/x-more+json": [1]}, raw=True)
handle = display("before", display_id=True); handle.update("after")
import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()
import pandas as pd; display(pd.DataFrame({"n": range(3)}))
"the" + " result"`;
const CHECK = `import json, sys, warnings, nbformat
warnings.simplefilter("error")
nbformat.validate(json.load(sys.stdin))`;

test("what the page saves is valid by Jupyter's own measure: new, old and incomplete notebooks, with all kinds of outputs", async ({ person }) => {
  test.setTimeout(180_000);
  const { page } = person;
  const code = (source: string, more = {}) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source, ...more });
  const old = { metadata: {}, nbformat: 4, nbformat_minor: 0 };
  const files = {
    "new.ipynb": "",
    "old.ipynb": JSON.stringify({ ...old, cells: [code("1"), { cell_type: "markdown", metadata: {}, source: "# Old" }] }),
    "odd.ipynb": JSON.stringify({ ...old, cells: [code("1", { id: "first" }), code("2")] }),
    "bare.ipynb": JSON.stringify({ cells: [{ cell_type: "code", source: "1" }, { cell_type: "raw", source: "raw" }], nbformat: 4 }),
  };
  await person.begin({ "code/main.py": "", ...Object.fromEntries(Object.entries(files).map(([name, text]) => [`code/${name}`, text])) });
  for (const name of Object.keys(files)) {
    await open(person, name);
    await cells(person).first().locator("pre").click();
    const editor = page.getByTestId("cell-editor").locator(".view-lines");
    await editor.waitFor();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(SHOWN);
    await page.keyboard.press("Shift+Enter");
    await expect(cells(person).first()).toContainText("'the result'", { timeout: 40_000 }); // of the first import of a library
    await cells(person).last().focus();
    for (const key of ["b", "m", "b", "Enter"]) await page.keyboard.press(key);
    await editor.waitFor();
    await page.keyboard.insertText("1 / 0");
    await page.keyboard.press("Control+Enter");
    await expect(cells(person).last().getByRole("alert")).toContainText("ZeroDivisionError");
    // A cell's outputs reach the file when its run has ended, which is after they are shown.
    let saved = "";
    await expect
      .poll(async () => {
        saved = await person.file(`code/${name}`);
        const found = (JSON.parse(saved) as { cells: Cell[] }).cells.flatMap(({ outputs = [] }) => outputs);
        return [...new Set(found.map((output) => output.output_type))].sort();
      })
      .toEqual(["display_data", "error", "execute_result", "stream"]);
    const checked = spawnSync(python, ["-c", CHECK], { input: saved, encoding: "utf8" });
    expect(checked.stderr, name).toBe("");
  }
});
