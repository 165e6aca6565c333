/** Starts runs from the editor: a selection, a cell or a file. */

import * as api from "../api/cloche";
import { app, isPhone } from "./app";
import { cursor } from "./cursor";
import { active, reveal, save, saveAll, type Document } from "./documents";
import { cellsOf, type Cell } from "./cells";
import { inspector } from "./inspector";
import { isNotebook, runNotebook } from "./notebooks";
import { isProgram, isSession, languageOf } from "./languages";
import { running, start, stopAll, type Asked } from "./runs";
import { theSandbox } from "./sandbox";
import { attempt, note } from "./toasts";
import { baseOf } from "./tree";
import { dedented, words } from "./words";

export type What = "here" | "file" | "next";

/** The language that the open file is run in. */
export function spoken(document: Document | null = active()): string {
  return inspector.get().language ?? (document ? languageOf(document.path)?.name : null) ?? "python";
}

/** How a language runs: as chosen, if possible. */
export function kindOf(language: string): "cell" | "program" {
  if (!isSession(language)) return "program";
  return inspector.get().kind === "program" && isProgram(language) ? "program" : "cell";
}

/** Runs the selection, else the cell at the cursor, else the whole file. */
export function run(what: What = "here"): void {
  const document = active();
  if (!document || document.phase !== "ready") return;
  if (isNotebook(document.path)) return runNotebook(document.path, what);
  attempt(async () => {
    if (kindOf(spoken(document)) === "program") await runProgram(document);
    else runCell(document, what);
    if (isPhone()) app.set({ view: "output" });
  });
}

function base(document: Document): Pick<Asked, "language" | "path" | "env" | "timeout" | "stdin" | "context"> {
  const { stdin, env, timeout, context } = inspector.get();
  return {
    language: spoken(document),
    path: document.path,
    env: Object.fromEntries(env.filter((one) => one.name).map((one) => [one.name, one.value])),
    timeout,
    ...(stdin ? { stdin } : {}),
    ...(context && spoken(document) === "python" ? { context } : {}), // only Python has branches
  };
}

function runCell(document: Document, what: What): void {
  const name = baseOf(document.path);
  const { selection, from, line } = cursor.get();
  void save(document.path); // in parallel: the run carries its own code
  if (what === "here" && selection.trim()) {
    start({ ...base(document), kind: "cell", code: dedented(selection), line: from - 1, title: `${name}, selection` });
    return;
  }
  const cells = cellsOf(document.text);
  if (what === "file" || cells.length === 1) {
    start({ ...base(document), kind: "cell", code: document.text, line: 0, title: name });
    return;
  }
  const at = cells.findIndex((cell) => line - 1 >= cell.start && line - 1 < cell.end);
  const cell = cells[Math.max(0, at)];
  if (!cell) return;
  startCell(document, cell, Math.max(0, at));
  const next = cells[at + 1];
  if (what === "next" && next) reveal.emit({ path: document.path, line: next.start + 1, column: 1 });
}

function startCell(document: Document, cell: Cell, index: number): void {
  const title = `${baseOf(document.path)}, ${cell.title || `cell ${index + 1}`}`;
  start({ ...base(document), kind: "cell", code: cell.code, line: cell.start, title });
}

/** Run the cell that begins at a line (from 0). */
export function runCellAt(start: number): void {
  const document = active();
  if (!document) return;
  const cells = cellsOf(document.text);
  const index = cells.findIndex((cell) => cell.start === start);
  const cell = cells[index];
  if (cell) startCell(document, cell, index);
}

async function runProgram(document: Document): Promise<void> {
  await saveAll(); // the program may import other files
  start({ ...base(document), kind: "program", code: document.text, line: 0, title: baseOf(document.path), args: words(inspector.get().args) });
}

export const stopRuns = (): void => attempt(stopAll);

/** Restarts the session: variables are lost, files stay. */
export function restart(): void {
  attempt(async () => {
    await api.restart(theSandbox());
    note("Session restarted", "Variables are lost, files are kept.");
  });
}

export const isRunning = (): boolean => running().length > 0;
