/** Notebook files, format 4: their cells as the page edits them, and back to a text that keeps everything else. Needs no DOM.

A cell that nobody changes stays as it was written, byte for byte; so do metadata and fields that the page does not know. */

import { arrayOf, elementsOf, memberOf, membersOf, objectOf, rawOf, unitOf, withMember, withoutMembers, type Members } from "./raw";

export type CellKind = "code" | "markdown" | "raw";

export interface Cell {
  /** Identifies the cell on this page, wherever it moves. */
  key: string;
  kind: CellKind;
  source: string;
  count: number | null;
  /** As in the file, and as little trusted. */
  outputs: unknown[];
  /** The cell's text in the file. */
  raw: string;
}

export interface Notebook {
  cells: Cell[];
  /** Its members, of which `cells` is written anew. */
  members: Members;
  /** Names of its language, the best first. */
  languages: string[];
  unit: string;
  /** Do its cells have ids? */
  hasIds: boolean;
  /** After the last bracket: a line end, if the file has one. */
  end: string;
}

/** Why a file cannot be shown as a notebook. */
export class NotANotebook extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

export const MAX_CELLS = 2000;
const AS_TEXT = "You can edit the file as text.";
const CELL_DEPTH = 2;
const WITH_IDS = 5; // the minor number of the format

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

let lastKey = 0;
const newKey = (): string => `cell-${++lastKey}`;

/** A text in the form of notebooks: one, or a list of lines. */
export const joined = (value: unknown): string =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string").join("") : typeof value === "string" ? value : "";

/** Reads a notebook; throws NotANotebook. An empty file is a new notebook. */
export function notebookOf(text: string): Notebook {
  if (!text.trim()) return newNotebook();
  const content = parsed(text);
  const { cells, nbformat = 4, nbformat_minor: minor } = content;
  if ("worksheets" in content || (typeof nbformat === "number" && nbformat < 4)) {
    throw new NotANotebook("This notebook has a format older than 4.", `Open it in Jupyter and save it: that converts it. ${AS_TEXT}`);
  }
  if (nbformat !== 4) throw new NotANotebook(`This notebook has format ${String(nbformat).slice(0, 20)}, and the page reads format 4.`, AS_TEXT);
  if (!Array.isArray(cells)) throw new NotANotebook("This file is not a notebook: it has no cells.", AS_TEXT);
  if (cells.length > MAX_CELLS) {
    const count = cells.length.toLocaleString("en");
    throw new NotANotebook(`This notebook has ${count} cells, and the page shows ${MAX_CELLS.toLocaleString("en")}.`, `Split it into several notebooks. ${AS_TEXT}`);
  }
  const broken = cells.findIndex((cell) => !isObject(cell));
  if (broken >= 0) throw new NotANotebook(`This notebook is broken: cell ${broken + 1} is not an object.`, AS_TEXT);
  const unit = unitOf(text);
  const members = membersOf(text);
  const raws = elementsOf(memberOf(members, "cells") ?? "[]");
  // Cells have ids from 4.5 on. A file with another number that has some was meant as 4.5.
  const isRecent = typeof minor === "number" && minor >= WITH_IDS;
  const hasIds = isRecent || (cells as Json[]).some((cell) => "id" in cell);
  const missing = { ...lacking(content, { metadata: {}, nbformat: 4, nbformat_minor: 4 }), ...(hasIds && !isRecent ? { nbformat_minor: WITH_IDS } : {}) };
  return {
    cells: (cells as Json[]).map((cell, index) => cellOf(cell, completed(cell, raws[index] ?? "{}", unit, hasIds))),
    members: Object.entries(missing).reduce((all, [name, value]) => withMember(all, name, rawOf(value, unit, 1)), members),
    languages: languagesOf(content.metadata),
    unit,
    hasIds,
    end: /\s*$/.exec(text)?.[0] ?? "",
  };
}

/** The text of a cell with the fields that the format asks for, so that the file is valid once it is saved. */
function completed(cell: Json, raw: string, unit: string, hasIds: boolean): string {
  const wanted = { metadata: {}, source: [], ...(cell.cell_type === "code" ? { execution_count: null, outputs: [] } : {}) };
  const missing = { ...lacking(cell, wanted), ...(hasIds ? lacking(cell, { id: newId() }) : {}) };
  return Object.keys(missing).length > 0 ? changed({ unit }, raw, missing) : raw;
}

/** Those fields that an object does not have. */
const lacking = (object: Json, fields: Json): Json => Object.fromEntries(Object.entries(fields).filter(([name]) => !(name in object)));

function parsed(text: string): Json {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (problem) {
    const reason = problem instanceof Error ? problem.message.slice(0, 200) : "";
    throw new NotANotebook("This file is not a notebook: it is not valid JSON.", `${reason}. ${AS_TEXT}`);
  }
  if (!isObject(content)) throw new NotANotebook("This file is not a notebook: it is not a JSON object.", AS_TEXT);
  return content;
}

function cellOf({ cell_type: kind, source, outputs, execution_count: count }: Json, raw: string): Cell {
  return {
    key: newKey(),
    kind: kind === "code" || kind === "markdown" ? kind : "raw",
    source: joined(source),
    count: typeof count === "number" ? count : null,
    outputs: kind === "code" && Array.isArray(outputs) ? outputs : [],
    raw,
  };
}

function languagesOf(metadata: unknown): string[] {
  const parts = isObject(metadata) ? metadata : {};
  const kernel = isObject(parts.kernelspec) ? parts.kernelspec : {};
  const info = isObject(parts.language_info) ? parts.language_info : {};
  const names = [kernel.language, info.name, kernel.name].filter((name): name is string => typeof name === "string" && name !== "");
  return names.map((name) => name.slice(0, 100));
}

/** The text of a notebook. */
export function textOf({ cells, members, unit, end }: Notebook): string {
  const all = arrayOf(cells.map((cell) => cell.raw), unit, 1);
  return objectOf(withMember(members, "cells", all), unit, 0) + end;
}

const PYTHON = { name: "python3", display_name: "Python 3", language: "python" };

/** A notebook with one empty cell. */
export function newNotebook(language = "python"): Notebook {
  const kernelspec = language === "python" ? PYTHON : { name: language, display_name: language, language };
  const metadata = { kernelspec, language_info: { name: language } };
  const empty: Notebook = {
    cells: [],
    members: [["cells", "[]"], ["metadata", rawOf(metadata, " ", 1)], ["nbformat", "4"], ["nbformat_minor", "5"]],
    languages: [language],
    unit: " ",
    hasIds: true,
    end: "\n",
  };
  return { ...empty, cells: [newCell(empty, "code")] };
}

// --- changing cells

export function newCell({ unit, hasIds }: Notebook, kind: CellKind, source = "", metadata: Json = {}): Cell {
  const cell = {
    cell_type: kind,
    ...(kind === "code" ? { execution_count: null } : {}),
    ...(hasIds ? { id: newId() } : {}),
    metadata,
    ...(kind === "code" ? { outputs: [] } : {}),
    source: linesOf(source),
  };
  return cellOf(cell, rawOf(cell, unit, CELL_DEPTH));
}

const newId = (): string => Array.from(crypto.getRandomValues(new Uint8Array(4)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** A copy, with an id of its own. */
export function copyOf(notebook: Notebook, cell: Cell): Cell {
  const raw = notebook.hasIds ? changed(notebook, cell.raw, { id: newId() }) : cell.raw;
  return { ...cell, key: newKey(), raw };
}

/** A text as a list of lines, each with its end. */
export const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

export function withSource(notebook: Notebook, cell: Cell, source: string): Cell {
  const isOneText = memberOf(membersOf(cell.raw), "source")?.startsWith('"');
  return { ...cell, source, raw: changed(notebook, cell.raw, { source: isOneText ? source : linesOf(source) }) };
}

export function withOutputs(notebook: Notebook, cell: Cell, outputs: unknown[], count: number | null): Cell {
  return { ...cell, outputs, count, raw: changed(notebook, cell.raw, { outputs, execution_count: count }) };
}

/** The cell as another kind, without the fields that this kind must not have. */
export function withKind(notebook: Notebook, cell: Cell, kind: CellKind): Cell {
  if (cell.kind === kind) return cell;
  const fields = kind === "code" ? { cell_type: kind, outputs: [], execution_count: null } : { cell_type: kind };
  const without = kind === "code" ? ["attachments"] : ["outputs", "execution_count"];
  return { ...cell, kind, outputs: [], count: null, raw: changed(notebook, cell.raw, fields, without) };
}

function changed({ unit }: Pick<Notebook, "unit">, raw: string, fields: Json, without: string[] = []): string {
  const members = Object.entries(fields).reduce(
    (all, [name, value]) => withMember(all, name, rawOf(value, unit, CELL_DEPTH + 1)),
    withoutMembers(membersOf(raw), ...without),
  );
  return objectOf(members, unit, CELL_DEPTH);
}

/** The cells of a text that somebody else has written, with the keys of those that were there before. */
export function recognized(before: Cell[], after: Cell[]): Cell[] {
  const known = new Map(before.map((cell) => [identity(cell), cell.key]));
  const taken = new Set<string>();
  const named = after.map((cell) => {
    const key = known.get(identity(cell));
    if (key === undefined || taken.has(key)) return cell;
    taken.add(key);
    return { ...cell, key };
  });
  // Without ids, a cell that was edited is the one in the same place.
  return named.map((cell, index) => {
    const was = before[index];
    if (taken.has(cell.key) || !was || taken.has(was.key) || was.kind !== cell.kind) return cell;
    taken.add(was.key);
    return { ...cell, key: was.key };
  });
}

function identity({ raw, kind, source }: Cell): string {
  const id = memberOf(membersOf(raw), "id");
  return id ?? `${kind}\n${source}`;
}
