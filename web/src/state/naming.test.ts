import { describe, expect, it } from "vitest";
import { nameFor } from "./naming";

describe("the name of a sandbox after its first run", () => {
  it.each([
    ["# %% A year in three greenhouses\nimport numpy as np\n", "A year in three greenhouses"],
    ["#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\nimport os\n\n# Count the words of a text.\nprint(1)", "Count the words of a text"],
    ["// The Mandelbrot set, two points to a character.\ntype Point = {};", "The Mandelbrot set, two points to a…"],
    ["-- Orders of a week\nselect 1;", "Orders of a week"],
    ['"""Sort the cards by suit.\n\nSlowly."""\nimport random\n', "Sort the cards by suit"],
    ["import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('Rain in May')\nplt.show()", "Rain in May"],
    ["import plotly.express as px\nfig = px.line(data, title=\"Trees by height\")", "Trees by height"],
    ["import os\nx = 1\ndef weekly_total(orders):\n    return 1\n", "Weekly total"],
    ["export function drawHouse() {}", "Draw house"],
    ["func main() {\n}\nfunc readLines() {}", "Read lines"],
    ["import os, sys\nimport pandas as pd\nfrom sklearn.svm import SVC\nx = 1\ny = 2", "Pandas and sklearn"],
    ['print("Hello from under the glass")\n', "Hello from under the glass"],
    ["1 + 1\nx = 2\ny = x * 7", "X = 2"],
    ["total = 6 * 7\ntotal", "Total = 6 * 7"],
    ["", ""],
    ["   \n\n", ""],
    ["1", ""],
  ])("%j", (code, name) => {
    expect(nameFor(code)).toBe(name);
  });

  it("is short, on one line, and has nothing that nobody sees", () => {
    expect(nameFor("# abc\u202Egpj.exe\u0000 and more")).toBe("Abc gpj.exe and more");
    expect([...nameFor(`# ${"ß𝒳 ".repeat(200)}`)].length).toBeLessThanOrEqual(41);
    expect(nameFor("# <img src=x onerror=alert(1)>")).toBe("<img src=x onerror=alert(1)>"); // it is text wherever it is shown
  });

  it("takes no long time for odd code", () => {
    const begin = performance.now();
    for (const odd of ["title".repeat(100_000), "title=('".repeat(50_000), "#".repeat(500_000), `"""${"a".repeat(500_000)}`, " ".repeat(500_000), "import a,".repeat(60_000), "export ".repeat(80_000)]) nameFor(odd);
    expect(performance.now() - begin).toBeLessThan(2000);
  });
});
