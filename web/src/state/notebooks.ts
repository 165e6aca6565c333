/** Open notebooks: their cells, which one is chosen, and what runs in them.

The text of the document stays the only truth: every change of a cell is a change of the text (`documents.edit`), so
drafts, autosave and conflicts are those of every file. A text that somebody else has written becomes cells again. */

import { app } from "./app";
import { documents, edit, openFile } from "./documents";
import { inspector } from "./inspector";
import { copyOf, newCell, NotANotebook, notebookOf, recognized, textOf, withKind, withOutputs, withSource, type Cell, type CellKind, type Notebook } from "./notebook/format";
import { runEnded, runs, runsRecovered, start, stop, type Run } from "./runs";
import { left } from "./sandbox";
import { createStore, Signal } from "./store";
import { attempt, complain, note } from "./toasts";
import { baseOf } from "./tree";

export interface OpenNotebook {
  /** The text of the file that these cells are. */
  text: string;
  notebook: Notebook;
  problem: NotANotebook | null;
  /** The chosen cell. */
  active: string;
  isEditing: boolean;
  /** The last run of each cell that this page knows. */
  runs: Record<string, Run>;
  /** Cells that run next. */
  queue: string[];
  /** Cells that were deleted, for `bringBack`. */
  deleted: { at: number; cell: Cell }[];
}

export const notebooks = createStore<{ byPath: Record<string, OpenNotebook> }>({ byPath: {} });

/** Show a place in the code of a cell; lines count from 1. */
export const cellRevealed = new Signal<{ key: string; line: number }>();

export const isNotebook = (path: string): boolean => /\.ipynb$/i.test(path);

const MAX_DELETED = 50;
const nothing: Notebook = { cells: [], members: [], languages: [], unit: " ", hasIds: false, end: "" };

/** The notebook as its document is now; null while that is not a text. */
export function openNotebook(path: string): OpenNotebook | null {
  const document = documents.get().byPath[path];
  if (document?.phase !== "ready") return null;
  const known = notebooks.get().byPath[path];
  if (known?.text === document.text) return known;
  const fresh = opened(document.text, known);
  notebooks.set(({ byPath }) => ({ byPath: { ...byPath, [path]: fresh } }));
  return fresh;
}

function opened(text: string, known: OpenNotebook | undefined): OpenNotebook {
  const before = known ?? { notebook: nothing, active: "", isEditing: false, runs: {}, queue: [], deleted: [] };
  try {
    const read = notebookOf(text);
    const cells = recognized(before.notebook.cells, read.cells);
    const isThere = cells.some(({ key }) => key === before.active);
    return {
      ...before,
      text,
      notebook: { ...read, cells },
      problem: null,
      active: isThere ? before.active : (cells[0]?.key ?? ""),
      isEditing: isThere && before.isEditing,
    };
  } catch (problem) {
    if (!(problem instanceof NotANotebook)) throw problem;
    return { ...before, text, notebook: nothing, problem, queue: [] };
  }
}

function set(path: string, changes: Partial<OpenNotebook>): void {
  notebooks.set(({ byPath }) => {
    const was = byPath[path];
    return was ? { byPath: { ...byPath, [path]: { ...was, ...changes } } } : {};
  });
}

/** Changes the cells, and with them the text of the document. */
function change(path: string, cells: Cell[], changes: Partial<OpenNotebook> = {}): void {
  const open = notebooks.get().byPath[path];
  if (!open) return;
  const notebook = { ...open.notebook, cells };
  const text = textOf(notebook);
  set(path, { notebook, text, ...changes });
  edit(path, text);
}

/** Does something with a cell, if it is still there. */
function withCell(path: string, key: string, work: (open: OpenNotebook, cell: Cell, index: number) => void): void {
  const open = openNotebook(path);
  const index = open?.notebook.cells.findIndex((cell) => cell.key === key) ?? -1;
  const cell = open?.notebook.cells[index];
  if (open && cell) work(open, cell, index);
}

// --- choosing and editing cells

export const choose = (path: string, key: string, isEditing = false): void => set(path, { active: key, isEditing });

/** Chooses the cell so many places further. */
export function step(path: string, by: number): void {
  const open = openNotebook(path);
  if (!open) return;
  withCell(path, open.active, (_, __, index) => {
    const next = open.notebook.cells[index + by];
    if (next) choose(path, next.key);
  });
}

export function write(path: string, key: string, source: string): void {
  withCell(path, key, ({ notebook }, cell) => {
    if (cell.source !== source) change(path, replaced(notebook.cells, withSource(notebook, cell, source)));
  });
}

const replaced = (cells: Cell[], now: Cell): Cell[] => cells.map((cell) => (cell.key === now.key ? now : cell));

/** Adds a cell at a position and chooses it. */
export function add(path: string, at: number, kind: CellKind = "code", isEditing = false): void {
  const open = openNotebook(path);
  if (open) insert(path, open, at, newCell(open.notebook, kind), { isEditing });
}

function insert(path: string, { notebook: { cells } }: OpenNotebook, at: number, cell: Cell, changes: Partial<OpenNotebook> = {}): void {
  change(path, [...cells.slice(0, at), cell, ...cells.slice(at)], { active: cell.key, isEditing: false, ...changes });
}

/** Deletes a cell. A notebook keeps at least one. */
export function remove(path: string, key: string): void {
  withCell(path, key, (open, cell, index) => {
    const rest = open.notebook.cells.filter((one) => one.key !== key);
    const cells = rest.length > 0 ? rest : [newCell(open.notebook, "code")];
    const next = cells[Math.min(index, cells.length - 1)];
    const deleted = [...open.deleted.slice(1 - MAX_DELETED), { at: index, cell }];
    change(path, cells, { active: next?.key ?? "", isEditing: false, deleted, queue: open.queue.filter((one) => one !== key) });
  });
}

/** Brings the cell back that was deleted last. */
export function bringBack(path: string): void {
  const open = openNotebook(path);
  const last = open?.deleted.at(-1);
  if (open && last) insert(path, open, last.at, last.cell, { deleted: open.deleted.slice(0, -1) });
}

export function move(path: string, key: string, by: number): void {
  withCell(path, key, ({ notebook: { cells } }, cell, index) => {
    const rest = cells.filter((one) => one.key !== key);
    const at = Math.max(0, Math.min(rest.length, index + by));
    if (at !== index) change(path, [...rest.slice(0, at), cell, ...rest.slice(at)]);
  });
}

/** Puts a copy of a cell after another. */
export function paste(path: string, after: string, copied: Cell): void {
  withCell(path, after, (open, _, index) => insert(path, open, index + 1, copyOf(open.notebook, copied)));
}

export function turnInto(path: string, key: string, kind: CellKind): void {
  withCell(path, key, ({ notebook, runs: known }, cell) => {
    if (cell.kind === kind) return;
    const { [key]: _, ...others } = known;
    change(path, replaced(notebook.cells, withKind(notebook, cell, kind)), { runs: others });
  });
}

export function clearOutputs(path: string): void {
  const open = openNotebook(path);
  if (!open) return;
  const cells = open.notebook.cells.map((cell) =>
    cell.kind === "code" && (cell.outputs.length > 0 || cell.count !== null) ? withOutputs(open.notebook, cell, [], null) : cell,
  );
  const going = Object.fromEntries(Object.entries(open.runs).filter(([, run]) => !run.isOver));
  change(path, cells, { runs: going });
}

// --- running cells

/** The language of its code, or null if the server has no sessions in that language. */
export function languageOfNotebook({ languages }: Notebook): string | null {
  if (languages.length === 0) return "python";
  const offered = app.get().languages.filter((one) => one.sessions);
  for (const name of languages.map((one) => one.toLowerCase())) {
    const found = offered.find((one) => [one.name, ...one.aliases].includes(name) || [one.name, ...one.aliases].includes(name.replace(/[\d.]+$/, "")));
    if (found) return found.name;
  }
  return null;
}

export type What = "here" | "next" | "file";

/** Runs the chosen cell, and with "next" chooses the one after it; "file" runs all cells. */
export function runNotebook(path: string, what: What): void {
  const open = openNotebook(path);
  if (!open || open.problem) return;
  const { cells } = open.notebook;
  if (what === "file") return enqueue(path, cells.map((cell) => cell.key));
  const index = cells.findIndex((cell) => cell.key === open.active);
  if (index < 0) return;
  enqueue(path, [open.active]);
  const next = cells[index + 1];
  if (what === "here") choose(path, open.active);
  else if (next) choose(path, next.key);
  else add(path, cells.length, "code", true);
}

/** Runs cells one after the other; one that fails keeps those after it from running. */
export function enqueue(path: string, keys: string[]): void {
  const open = openNotebook(path);
  if (!open) return;
  const codes = new Set(open.notebook.cells.filter((cell) => cell.kind === "code").map((cell) => cell.key));
  const wanted = keys.filter((key) => codes.has(key) && !open.queue.includes(key));
  if (wanted.length === 0) return;
  const language = languageOfNotebook(open.notebook);
  if (language === null) {
    return complain(new Error(`Cloche has no sessions in ${open.notebook.languages[0] ?? "this language"}, so this notebook cannot run here.`));
  }
  set(path, { queue: [...open.queue, ...wanted] });
  if (!working.has(path)) attempt(() => work(path, language));
}

const working = new Set<string>();

async function work(path: string, language: string): Promise<void> {
  working.add(path);
  try {
    for (;;) {
      const open = openNotebook(path);
      const [key, ...queue] = open?.queue ?? [];
      if (!open || key === undefined) return;
      set(path, { queue });
      const index = open.notebook.cells.findIndex((cell) => cell.key === key);
      const cell = open.notebook.cells[index];
      if (!cell) continue;
      if (!cell.source.trim()) {
        change(path, replaced(open.notebook.cells, withOutputs(open.notebook, cell, [], null)));
        continue;
      }
      const run = begin(path, cell, language, index);
      set(path, { runs: { ...notebooks.get().byPath[path]?.runs, [key]: run } });
      await over(run);
      finish(path, key, run);
      if (run.hasFailed) set(path, { queue: [] });
    }
  } finally {
    working.delete(path);
  }
}

function begin(path: string, { key, source }: Cell, language: string, index: number): Run {
  const { env, timeout, context, stdin } = inspector.get();
  return start({
    kind: "cell",
    code: source,
    language,
    path,
    line: 0,
    cell: key,
    title: `${baseOf(path)}, cell ${index + 1}`,
    env: Object.fromEntries(env.filter((one) => one.name).map((one) => [one.name, one.value])),
    timeout,
    ...(stdin ? { stdin } : {}),
    ...(context && language === "python" ? { context } : {}),
  });
}

function over(run: Run): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      stopListening();
      stopLeaving();
      resolve();
    };
    const stopListening = runEnded.on((one) => one === run && end());
    const stopLeaving = left.on(end);
  });
}

/** Keeps the outputs of a run in its cell. */
function finish(path: string, key: string, run: Run): void {
  if (!run.isOver) return;
  withCell(path, key, ({ notebook }, cell) => {
    const count = run.result?.execution_count ?? null;
    change(path, replaced(notebook.cells, withOutputs(notebook, cell, run.collected?.outputs(count) ?? [], count)));
  });
}

/** Stops what runs in a notebook, and lets nothing else of it begin. */
export function interrupt(path: string): void {
  const open = notebooks.get().byPath[path];
  set(path, { queue: [] });
  for (const run of Object.values(open?.runs ?? {})) if (!run.isOver) attempt(() => stop(run));
}

/** Cells that were running when the page was reloaded get their runs back. */
export function resume(path: string): void {
  const open = openNotebook(path);
  if (!open) return;
  for (const run of runs.get().all) {
    if (run.isOver || run.asOf || run.asked.path !== path || Object.values(open.runs).includes(run)) continue;
    // Of long code, only the beginning was remembered.
    const cell = open.notebook.cells.find(({ kind, source }) => kind === "code" && run.asked.code && source.startsWith(run.asked.code));
    if (!cell) continue;
    set(path, { runs: { ...notebooks.get().byPath[path]?.runs, [cell.key]: run } });
    attempt(async () => {
      await over(run);
      finish(path, cell.key, run);
    });
  }
}

/** The cell that a run was of, if it is still there. */
export function cellOf(run: Run): Cell | null {
  const open = run.asked.path === null ? undefined : notebooks.get().byPath[run.asked.path];
  // A run from before this page was loaded was found again by its code.
  const key = run.asked.cell ?? Object.entries(open?.runs ?? {}).find(([, one]) => one === run)?.[0];
  return open?.notebook.cells.find((cell) => cell.key === key) ?? null;
}

/** Shows a line in the code of a cell that has run, if the cell is still there. */
export function revealInCell(run: Run, line: number): void {
  const { path } = run.asked;
  if (path === null) return;
  attempt(async () => {
    await openFile(path);
    const cell = cellOf(run);
    if (!cell) return note("The cell is not there any more", "It was deleted, or its notebook was opened again.");
    choose(path, cell.key, true);
    cellRevealed.emit({ key: cell.key, line });
  });
}

runsRecovered.on(() => Object.keys(notebooks.get().byPath).forEach(resume));

// --- files that are closed

documents.subscribe(() => {
  const { byPath } = notebooks.get();
  const { byPath: files } = documents.get();
  if (Object.keys(byPath).every((path) => files[path])) return;
  notebooks.set({ byPath: Object.fromEntries(Object.entries(byPath).filter(([path]) => files[path])) });
});
