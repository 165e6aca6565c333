/** Files that are open in tabs: what was typed, what the sandbox has, and never a difference that is lost.

Everything typed goes to this browser's storage at once and to the sandbox a moment later. Whoever reloads, loses the
connection or the sandbox gets it back: drafts are found by the id of the files, which outlives the sandbox. */

import * as api from "../api/cloche";
import { ApiProblem, explain } from "../api/http";
import { app } from "./app";
import { forget, keep, recall } from "./kept";
import { lasting, left, opened, sandbox, theSandbox } from "./sandbox";
import { createStore, Signal } from "./store";
import { isWithin, touched } from "./tree";

export interface Document {
  path: string;
  phase: "loading" | "ready" | "failed" | "binary";
  text: string;
  /** The last known version in the sandbox, and its time. */
  saved: string;
  modified: number | null;
  saving: "saved" | "waiting" | "saving" | "failed";
  /** Somebody else's version, if ours has changes, too. */
  theirs: string | null;
  /** The file was deleted from the sandbox; only this copy is left. */
  removed: boolean;
  problem: string;
  size: number;
}

interface Documents {
  open: string[];
  active: string | null;
  byPath: Record<string, Document>;
}

interface Draft {
  text: string;
  base: number | null;
}

export const documents = createStore<Documents>({ open: [], active: null, byPath: {} });
/** Show a place in the editor; lines and columns count from 1. */
export const reveal = new Signal<{ path: string; line: number; column: number }>();

const SAVE_MS = 500;
const DRAFT_MS = 120;
const RETRY_MS = 2500;
const MAX_TEXT = 5 << 20;

export const isDirty = (document: Document): boolean => document.text !== document.saved;

export function active(): Document | null {
  const { active: path, byPath } = documents.get();
  return path === null ? null : (byPath[path] ?? null);
}

function change(path: string, changes: Partial<Document>): void {
  documents.set(({ byPath }) => {
    const was = byPath[path];
    return was ? { byPath: { ...byPath, [path]: { ...was, ...changes } } } : {};
  });
}

const owner = (): string => {
  const { record } = sandbox.get();
  return record ? lasting(record) : "";
};
const draftName = (path: string): string => `draft.${owner()}.${path}`;

function rememberTabs(): void {
  const { open, active: path } = documents.get();
  if (owner()) keep(`tabs.${owner()}`, { open, active: path });
}

// --- opening and closing

export async function openFile(path: string, place?: { line: number; column: number }): Promise<void> {
  const { byPath, open } = documents.get();
  if (!byPath[path]) {
    const fresh: Document = {
      path,
      phase: "loading",
      text: "",
      saved: "",
      modified: null,
      saving: "saved",
      theirs: null,
      removed: false,
      problem: "",
      size: 0,
    };
    documents.set({ open: [...open, path], active: path, byPath: { ...byPath, [path]: fresh } });
    rememberTabs();
    await load(path);
  } else {
    documents.set({ active: path });
    rememberTabs();
  }
  app.set({ view: "code" });
  if (place) reveal.emit({ path, ...place });
}

async function load(path: string): Promise<void> {
  const id = theSandbox();
  try {
    const [entry, response] = await Promise.all([api.stat(id, path), api.readFile(id, path)]);
    const bytes = await response.arrayBuffer();
    const text = decoded(bytes);
    if (text === null || bytes.byteLength > MAX_TEXT) {
      change(path, { phase: "binary", modified: entry.modified, size: bytes.byteLength });
      return;
    }
    const loaded: Partial<Document> = { phase: "ready", saved: text, text, modified: entry.modified, size: bytes.byteLength };
    change(path, { ...loaded, ...fromDraft(path, text, entry.modified) });
    if (documents.get().byPath[path]?.saving === "waiting") plan(path);
  } catch (problem) {
    const draft = recall<Draft | null>(draftName(path), null);
    if (draft && problem instanceof ApiProblem && problem.status === 404) {
      change(path, { phase: "ready", text: draft.text, saved: "", removed: true, saving: "waiting" });
      plan(path);
    } else change(path, { phase: "failed", problem: explain(problem).message });
  }
}

/** A draft: typed text that was never saved. */
function fromDraft(path: string, theirs: string, modified: number): Partial<Document> {
  const draft = recall<Draft | null>(draftName(path), null);
  if (!draft) return {};
  if (draft.text === theirs) {
    forget(draftName(path));
    return {};
  }
  if (draft.base !== null && Math.abs(draft.base - modified) > 0.001) return { text: draft.text, theirs, saving: "failed" };
  return { text: draft.text, saving: "waiting" };
}

function decoded(bytes: ArrayBuffer): string | null {
  if (new Uint8Array(bytes.slice(0, 8000)).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

export const retryLoading = (path: string): void => {
  change(path, { phase: "loading" });
  void load(path);
};

export function activate(path: string): void {
  documents.set({ active: path });
  rememberTabs();
}

/** Closes a tab, and saves it first. */
export async function closeFile(path: string): Promise<void> {
  const document = documents.get().byPath[path];
  if (document && document.phase === "ready" && isDirty(document) && !document.theirs) await save(path);
  if (documents.get().byPath[path]?.saving === "failed") return; // the tab stays until the text is saved or discarded
  drop(path);
}

/** Closes a tab and discards its changes. */
export function abandon(path: string): void {
  forget(draftName(path));
  drop(path);
}

function drop(path: string): void {
  documents.set(({ open, active: now, byPath }) => {
    const at = open.indexOf(path);
    const rest = open.filter((one) => one !== path);
    const { [path]: _, ...others } = byPath;
    return { open: rest, byPath: others, active: now === path ? (rest[Math.min(at, rest.length - 1)] ?? null) : now };
  });
  rememberTabs();
}

export function moveTab(path: string, before: string | null): void {
  documents.set(({ open }) => {
    const rest = open.filter((one) => one !== path);
    const at = before === null ? rest.length : rest.indexOf(before);
    return { open: [...rest.slice(0, at), path, ...rest.slice(at)] };
  });
  rememberTabs();
}

// --- typing and saving

const drafts = new Map<string, number>();
const plans = new Map<string, number>();

/** Something was typed. */
export function edit(path: string, text: string): void {
  const document = documents.get().byPath[path];
  if (!document || document.text === text) return;
  change(path, { text, saving: document.saving === "saving" ? "saving" : text === document.saved ? "saved" : "waiting" });
  if (!drafts.has(path)) drafts.set(path, window.setTimeout(() => keepDraft(path), DRAFT_MS));
  plan(path);
}

function keepDraft(path: string): void {
  clearTimeout(drafts.get(path));
  drafts.delete(path);
  const document = documents.get().byPath[path];
  if (!document || document.phase !== "ready") return;
  if (isDirty(document)) keep(draftName(path), { text: document.text, base: document.modified } satisfies Draft);
  else forget(draftName(path));
}

/** Stores everything typed in this browser. */
export function keepDrafts(): void {
  for (const path of [...drafts.keys()]) keepDraft(path);
}

function plan(path: string, ms = SAVE_MS): void {
  clearTimeout(plans.get(path));
  plans.set(path, window.setTimeout(() => void save(path), ms));
}

const underWay = new Map<string, Promise<void>>();

/** Saves a file to the sandbox now. */
export async function save(path: string): Promise<void> {
  clearTimeout(plans.get(path));
  plans.delete(path);
  const before = underWay.get(path);
  if (before) await before;
  const document = documents.get().byPath[path];
  if (!document || document.phase !== "ready" || document.theirs !== null) return;
  if (!isDirty(document) && !document.removed) {
    if (document.saving !== "saved") change(path, { saving: "saved" });
    return;
  }
  const saving = bring(path, document.text);
  underWay.set(path, saving);
  await saving.finally(() => underWay.delete(path));
}

async function bring(path: string, text: string): Promise<void> {
  change(path, { saving: "saving" });
  try {
    const entry = await api.writeFile(theSandbox(), path, text);
    const now = documents.get().byPath[path]?.text;
    change(path, { saved: text, modified: entry.modified, removed: false, saving: now === text ? "saved" : "waiting", problem: "" });
    keepDraft(path);
    if (now !== text) plan(path);
  } catch (problem) {
    change(path, { saving: "failed", problem: explain(problem).message });
    keepDraft(path);
    if (!(problem instanceof ApiProblem) || problem.isOffline || problem.status >= 500) plan(path, RETRY_MS);
  }
}

export const saveAll = async (): Promise<void> => {
  await Promise.all(documents.get().open.map(save));
};

/** Settle a conflict: keep ours, or take theirs. */
export function settle(path: string, which: "ours" | "theirs"): void {
  const document = documents.get().byPath[path];
  if (!document || document.theirs === null) return;
  const { theirs } = document;
  if (which === "theirs") {
    forget(draftName(path));
    change(path, { text: theirs, saved: theirs, theirs: null, saving: "saved" });
  } else {
    change(path, { saved: theirs, theirs: null, saving: "waiting" });
    void save(path);
  }
}

// --- what others do to open files

const looks = new Map<string, number>();

function look(path: string): void {
  clearTimeout(looks.get(path));
  looks.set(path, window.setTimeout(() => void compare(path), 120));
}

async function compare(path: string): Promise<void> {
  looks.delete(path);
  await underWay.get(path);
  const document = documents.get().byPath[path];
  if (!document || (document.phase !== "ready" && document.phase !== "binary")) return;
  try {
    const id = theSandbox();
    const entry = await api.stat(id, path);
    if (entry.modified === document.modified && !document.removed) return;
    if (document.phase === "binary") return void (await load(path));
    const text = decoded(await (await api.readFile(id, path)).arrayBuffer());
    const now = documents.get().byPath[path];
    if (!now || underWay.has(path)) return;
    if (text === null) return change(path, { phase: "binary", modified: entry.modified });
    if (text === now.saved || text === now.text) change(path, { saved: text, modified: entry.modified, removed: false });
    else if (!isDirty(now)) change(path, { text, saved: text, modified: entry.modified, removed: false });
    else change(path, { theirs: text, modified: entry.modified, saving: "failed" });
  } catch (problem) {
    if (problem instanceof ApiProblem && problem.status === 404) change(path, { removed: true });
  }
}

touched.on(({ kind, path }) => {
  const { byPath } = documents.get();
  const newPath = kind.startsWith("moved:") ? kind.slice("moved:".length) : null;
  for (const open of Object.keys(byPath)) {
    if (!isWithin(open, path)) continue;
    if (newPath !== null) follow(open, newPath + open.slice(path.length));
    else if (kind === "removed") abandon(open);
    else look(open);
  }
});

/** Moves the tab of a file that was moved here. */
function follow(path: string, newPath: string): void {
  forget(draftName(path));
  documents.set(({ open, active: now, byPath }) => {
    const { [path]: moved, ...others } = byPath;
    if (!moved) return {};
    return {
      open: open.map((one) => (one === path ? newPath : one)),
      active: now === path ? newPath : now,
      byPath: { ...others, [newPath]: { ...moved, path: newPath } },
    };
  });
  rememberTabs();
}

opened.on(({ record, live }) => {
  documents.set({ open: [], active: null, byPath: {} });
  const known = recall<{ open: string[]; active: string | null }>(`tabs.${lasting(record)}`, { open: [], active: null });
  void (async () => {
    const { view } = app.get();
    await Promise.all(known.open.map((path) => openFile(path)));
    if (known.active) activate(known.active);
    app.set({ view });
  })();
  live.connected.on((connected) => {
    if (!connected) return;
    for (const document of Object.values(documents.get().byPath)) {
      if (document.saving === "failed" && document.theirs === null) plan(document.path, 0);
      else if (document.phase === "ready") look(document.path);
    }
  });
});

left.on(() => {
  keepDrafts();
  for (const timer of plans.values()) clearTimeout(timer);
  plans.clear();
  documents.set({ open: [], active: null, byPath: {} });
});

window.addEventListener("pagehide", keepDrafts);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "hidden") return;
  keepDrafts();
  if (sandbox.get().phase === "open") void saveAll();
});
