/** Things to run in one click, and how they are begun. */

import * as beyond from "../api/beyond";
import * as api from "../api/cloche";
import { app, isPhone, toggleSide } from "./app";
import { cellsOf } from "./cells";
import { documents, openFile } from "./documents";
import { inspector } from "./inspector";
import { run } from "./running";
import { runEnded, start, type Run } from "./runs";
import { createAndOpen, theSandbox, UNNAMED } from "./sandbox";
import { note } from "./toasts";
import { baseOf, list, ROOT } from "./tree";

export interface Example {
  id: "chart" | "typescript" | "bash" | "undo";
  title: string;
  about: string;
  language: string;
  path: string;
  code: string;
}

const chart = `# %% A year in three greenhouses
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt

rng = np.random.default_rng(7)
days = pd.date_range("2025-01-01", periods=365)
season = 14 - 9 * np.cos(np.arange(365) / 365 * 2 * np.pi)
warmer = {"Orchids": 6.0, "Citrus": 2.5, "Ferns": 0.0}


def readings_of(degrees: float) -> np.ndarray:
    """A reading a day: the season, and weather that wanders."""
    return season + degrees + rng.normal(0, 0.2, 365).cumsum()


readings = pd.DataFrame(
    {name: readings_of(degrees) for name, degrees in warmer.items()},
    index=days,
)
by_quarter = readings.groupby(readings.index.quarter).mean()

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
colours = ["#1f6b4f", "#d08c2c", "#7aa6c2"]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=[2, 1])
readings.rolling(7).mean().plot(ax=left, color=colours, lw=1.8)
left.set_title("Temperature, weekly mean in °C")
left.grid(alpha=0.25)
by_quarter.plot.bar(ax=right, color=colours, width=0.8, legend=False, rot=0)
right.set(title="By quarter", xlabel="")
fig.tight_layout()
plt.show()

by_quarter.round(1)
`;

const typescript = `// The Mandelbrot set, two points to a character.
type Point = { re: number; im: number };
type Colour = readonly [number, number, number];

const [WIDTH, HEIGHT, DEPTH] = [46, 40, 150];
const INSIDE: Colour = [9, 20, 15];
const PALETTE: Colour[] = [
  [16, 42, 33], [31, 107, 79], [127, 214, 171], [240, 236, 205], [224, 150, 74],
];

function steps({ re, im }: Point): number {
  let [x, y] = [0, 0];
  for (let step = 0; step < DEPTH; step++) {
    [x, y] = [x * x - y * y + re, 2 * x * y + im];
    if (x * x + y * y > 4) return step;
  }
  return DEPTH;
}

function colour(count: number): Colour {
  if (count === DEPTH) return INSIDE;
  const place = Math.min(0.999, Math.log1p(count) / Math.log1p(40)) * (PALETTE.length - 1);
  const [from, to] = [PALETTE[Math.floor(place)], PALETTE[Math.ceil(place)]];
  const mix = (index: 0 | 1 | 2) => Math.round(from[index] + (to[index] - from[index]) * (place % 1));
  return [mix(0), mix(1), mix(2)];
}

const at = (column: number, row: number): string =>
  colour(steps({ re: -2.2 + (column / WIDTH) * 3, im: -1.25 + (row / HEIGHT) * 2.5 })).join(";");

for (let row = 0; row < HEIGHT; row += 2) {
  let line = "";
  for (let column = 0; column < WIDTH; column++) {
    line += \`\\x1b[38;2;\${at(column, row)};48;2;\${at(column, row + 1)}m▀\`;
  }
  console.log(line + "\\x1b[0m");
}
console.log(\`\${WIDTH * HEIGHT} points, typed\`);
`;

const bash = `# Which letters do the programs in this sandbox begin with?
ls /usr/bin | cut -c1 | sort | uniq -c | sort -rn | head -14 |
  awk '{ bar = sprintf("%*s", $1 / 6, ""); gsub(/ /, "█", bar)
         printf "\\033[36m%3s\\033[0m %4d \\033[32m%s\\033[0m\\n", $2, $1, bar }'
`;

const undo = `# %% Build something
import pandas as pd

orders = pd.DataFrame({
    "item": ["fern", "orchid", "citrus", "moss"],
    "price": [12.0, 39.0, 24.5, 6.0],
})
orders.to_csv("orders.csv", index=False)
orders

# %% Ruin it
import os

orders = orders.drop(orders.index)
os.remove("orders.csv")
print("Oh no:", len(orders), "orders left, and the file is gone")

# %% Check, after the undo
print(open("orders.csv").read())
orders
`;

export const examples: Example[] = [
  { id: "chart", title: "A chart from data", about: "pandas and Matplotlib: a year of readings, as a chart and a summary", language: "python", path: `${ROOT}/code/greenhouse.py`, code: chart },
  { id: "typescript", title: "A TypeScript program", about: "The Mandelbrot set in colour, with types, without a build", language: "typescript", path: `${ROOT}/code/mandelbrot.ts`, code: typescript },
  { id: "bash", title: "A Bash script", about: "Pipes, awk and a bar chart of what is installed here", language: "bash", path: `${ROOT}/code/letters.sh`, code: bash },
  { id: "undo", title: "Undo", about: "Lose a table and its file, then restore both in milliseconds", language: "python", path: `${ROOT}/code/undo.py`, code: undo },
];

export const isReady = (language: string): boolean => {
  const known = app.get().languages.find((one) => one.name === language);
  return known === undefined || known.state === "ready" || known.state === "old";
};

/** Make a sandbox for an example, and run it. */
export async function beginExample(example: Example): Promise<void> {
  await createAndOpen(example.title);
  inspector.set({ kind: "cell", stdin: "", args: "", language: null });
  await api.writeFile(theSandbox(), example.path, example.code);
  await openFile(example.path);
  if (example.id !== "undo") return run("file");
  await runUndo(example);
}

async function runUndo(example: Example): Promise<void> {
  for (const cell of cellsOf(example.code).slice(0, 2)) {
    const title = `${baseOf(example.path)}, ${cell.title}`;
    await over(start({ kind: "cell", language: "python", path: example.path, line: cell.start, code: cell.code, title }));
  }
  if (app.get().side !== "timeline" || isPhone()) toggleSide("timeline");
  note("Now undo it", "Use the timeline to undo the last run: variables and the file come back. Then run the third cell.");
}

const over = (run: Run): Promise<void> =>
  new Promise((resolve) => {
    const stop = runEnded.on((ended) => {
      if (ended !== run) return;
      stop();
      resolve();
    });
  });

/** Make a sandbox with a template's files, and open where it begins. */
export async function beginTemplate(name: string): Promise<void> {
  const template = await beyond.template(name);
  await createAndOpen(name);
  inspector.set({ kind: "program", stdin: "", args: "", language: null });
  const id = theSandbox();
  await Promise.all(Object.entries(template.files).map(([path, contents]) => api.writeFile(id, `${ROOT}/${path}`, contents)));
  await list(ROOT);
  await openFile(`${ROOT}/${template.entry}`);
}

/** An empty sandbox with a file to begin with. */
export async function beginEmpty(): Promise<void> {
  await createAndOpen(UNNAMED);
  const path = `${ROOT}/code/main.py`;
  await api.writeFile(theSandbox(), path, 'print("Hello from under the glass")\n');
  await openFile(path);
  if (documents.get().active !== path) documents.set({ active: path });
}
