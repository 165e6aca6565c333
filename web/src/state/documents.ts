/** Files that are open in tabs: what was typed, what the sandbox has, and never a difference that is lost.

Everything typed goes to this browser's storage at once and to the sandbox a moment later. Whoever reloads, loses the
connection or the sandbox gets it back: drafts are found by the id of the files, which outlives the sandbox.

The sandbox takes a text only if its file still is the version that was edited (`version`). If somebody else has written
meanwhile, it refuses, whatever the timing, and the person chooses between the two texts. */

import * as api from "../api/cloche";
import { ApiProblem, explain } from "../api/http";
import { app } from "./app";
import * as drafts from "./drafts";
import { keep, recall } from "./kept";
import { lasting, left, opened, sandbox, theSandbox } from "./sandbox";
import { sha256 } from "./sha256";
import { createStore, Signal } from "./store";
import { note } from "./toasts";
import { baseOf, isWithin, touched } from "./tree";

export interface Document {
  path: string;
  phase: "loading" | "ready" | "failed" | "binary";
  text: string;
  /** The last known version in the sandbox: its text, the digest of its bytes (empty: no file), and its time. */
  saved: string;
  version: string;
  modified: number | null;
  saving: "saved" | "waiting" | "saving" | "failed";
  /** Somebody else's version, if ours has changes, too. */
  theirs: string | null;
  theirVersion: string;
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

export const documents = createStore<Documents>({ open: [], active: null, byPath: {} });
/** Show a place in the editor; lines and columns count from 1. */
export const reveal = new Signal<{ path: string; line: number; column: number }>();

const SAVE_MS = 500;
const DRAFT_MS = 120;
const RETRY_MS = 2500;
const LOOK_MS = 120;
/** The bytes of the largest file that is edited as text. */
export const MAX_TEXT = 5 << 20;
const LARGE = 256 << 10; // files of which the time is compared before the contents

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
/** Is this still the open sandbox? An answer about another one must not change a file of the same name. */
const isOpen = (id: string): boolean => sandbox.get().record?.id === id;
const digest = (text: string): string => sha256(new TextEncoder().encode(text));

function rememberTabs(): void {
  const { open, active: path } = documents.get();
  if (sandbox.get().phase === "open") keep(`tabs.${owner()}`, { open, active: path }); // one that has ended keeps its tabs
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
      version: "",
      modified: null,
      saving: "saved",
      theirs: null,
      theirVersion: "",
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
    const entry = await api.stat(id, path);
    if (entry.kind === "file" && entry.size > MAX_TEXT) {
      if (isOpen(id)) change(path, { phase: "binary", modified: entry.modified, size: entry.size });
      return;
    }
    const bytes = await (await api.readFile(id, path)).arrayBuffer();
    const text = bytes.byteLength > MAX_TEXT ? null : decoded(bytes);
    const draft = text === null ? null : await drafts.findDraft(owner(), path);
    if (!isOpen(id)) return;
    const found = { modified: entry.modified, size: bytes.byteLength };
    if (text === null) return change(path, { ...found, phase: "binary" });
    const version = sha256(new Uint8Array(bytes));
    if (draft) unanswered.set(path, basesOf(draft).slice(1));
    change(path, { ...found, phase: "ready", saved: text, text, version, removed: false, ...fromDraft(draft, text, version) });
    keepDraft(path);
    if (documents.get().byPath[path]?.saving === "waiting") plan(path);
  } catch (problem) {
    const draft = await drafts.findDraft(owner(), path);
    if (!isOpen(id)) return;
    if (draft && problem instanceof ApiProblem && problem.status === 404) {
      change(path, { phase: "ready", text: draft.text, saved: "", version: "", removed: true, saving: "waiting" });
      plan(path);
    } else change(path, { phase: "failed", problem: explain(problem).message });
    if (problem instanceof ApiProblem && problem.isOffline) {
      setTimeout(() => isOpen(id) && documents.get().byPath[path]?.phase === "failed" && retryLoading(path), RETRY_MS);
    }
  }
  if (missed.delete(path)) look(path);
}

/** A draft continues the version that was edited. If the file has another one by now, the person decides. */
function fromDraft(draft: drafts.Draft | null, theirs: string, version: string): Partial<Document> {
  if (!draft || draft.text === theirs) return {};
  const [edited = "", ...sent] = basesOf(draft);
  if (version === edited || sent.includes(version)) return { text: draft.text, saving: "waiting" };
  // The version that was edited stays known: with theirs in its place, the next reload would see no conflict any more.
  return { text: draft.text, version: edited, theirs, theirVersion: version, saving: "failed" };
}

/** The versions that a draft continues; an older page stored only one. */
const basesOf = (draft: drafts.Draft): string[] => [draft.base].flat();

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
  for (;;) {
    const document = documents.get().byPath[path];
    if (!document || document.phase !== "ready" || !isDirty(document)) return drop(path);
    if (document.theirs !== null) return; // the tab stays until the text is saved or discarded
    await save(path);
    if (documents.get().byPath[path]?.saving === "failed") return;
  }
}

/** Closes a tab and discards its changes. */
export function abandon(path: string): void {
  drafts.forgetDraft(owner(), path);
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

const drafting = new Map<string, number>();
const plans = new Map<string, number>();
/** Files whose draft could not be stored: only this page has the text. */
const unkept = new Set<string>();

/** Something was typed. */
export function edit(path: string, text: string): void {
  const document = documents.get().byPath[path];
  if (!document || document.text === text) return;
  const saving = document.saving === "saving" || document.theirs !== null ? document.saving : text === document.saved ? "saved" : "waiting";
  change(path, { text, saving });
  if (!drafting.has(path)) drafting.set(path, window.setTimeout(() => keepDraft(path), DRAFT_MS));
  plan(path);
}

function keepDraft(path: string): void {
  clearTimeout(drafting.get(path));
  drafting.delete(path);
  unkept.delete(path);
  const document = documents.get().byPath[path];
  if (!document || document.phase !== "ready") return;
  if (!isDirty(document)) return drafts.forgetDraft(owner(), path);
  const draft = { text: document.text, base: [document.version, ...(unanswered.get(path) ?? [])], time: Date.now() };
  if (!drafts.keepDraft(owner(), path, draft)) unkept.add(path);
}

/** Stores everything typed in this browser. */
export function keepDrafts(): void {
  for (const path of [...drafting.keys()]) keepDraft(path);
}

function plan(path: string, ms = SAVE_MS): void {
  clearTimeout(plans.get(path));
  plans.set(path, window.setTimeout(() => void save(path), ms));
}

const underWay = new Map<string, Promise<void>>();
/** The versions that were sent for each file, until an answer comes. It may be lost, and then they are still ours. */
const unanswered = new Map<string, string[]>();

/** Saves a file to the sandbox now. */
export async function save(path: string): Promise<void> {
  clearTimeout(plans.get(path));
  plans.delete(path);
  while (underWay.has(path)) await underWay.get(path);
  const document = documents.get().byPath[path];
  if (!document || document.phase !== "ready" || document.theirs !== null) return;
  if (!isDirty(document) && !document.removed) {
    if (document.saving !== "saved") change(path, { saving: "saved" });
    return;
  }
  const saving = bring(path, document);
  underWay.set(path, saving);
  await saving.finally(() => underWay.delete(path));
}

async function bring(path: string, { text, version, removed }: Document): Promise<void> {
  const id = theSandbox();
  change(path, { saving: "saving" });
  const ours = digest(text);
  unanswered.set(path, [...(unanswered.get(path) ?? []), ours]);
  keepDraft(path);
  try {
    const entry = await api.writeFile(id, path, text, removed ? "" : version);
    if (!isOpen(id)) return;
    const now = documents.get().byPath[path]?.text;
    const isLatest = now === undefined || now === text;
    unanswered.delete(path);
    change(path, { saved: text, version: ours, modified: entry.modified, removed: false, saving: isLatest ? "saved" : "waiting", problem: "" });
    keepDraft(path);
    if (!isLatest) plan(path);
  } catch (problem) {
    if (!isOpen(id)) return;
    const isOutdated = problem instanceof ApiProblem && problem.status === 412;
    if (isOutdated && (await reread(path))) {
      if (documents.get().byPath[path]?.saving !== "saving") return;
      change(path, { saving: "waiting" });
      return plan(path);
    }
    change(path, { saving: "failed", problem: explain(problem).message });
    keepDraft(path);
    if (!(problem instanceof ApiProblem) || problem.isOffline || problem.status >= 500 || isOutdated) plan(path, RETRY_MS);
  }
}

export const saveAll = async (): Promise<void> => {
  await Promise.all(documents.get().open.map(save));
};

/** Settle a conflict: keep ours, or take theirs. */
export function settle(path: string, which: "ours" | "theirs"): void {
  const document = documents.get().byPath[path];
  if (!document || document.theirs === null) return;
  const settled = { saved: document.theirs, version: document.theirVersion, theirs: null, problem: "" };
  change(path, which === "theirs" ? { ...settled, text: document.theirs, saving: "saved" } : { ...settled, saving: "waiting" });
  keepDraft(path);
  if (which === "ours") void save(path);
  else look(path); // the file may have become one that is not text
}

// --- what others do to open files

const looks = new Map<string, number>();
/** Files that were changed while they were being opened. */
const missed = new Set<string>();

function look(path: string, ms = LOOK_MS): void {
  clearTimeout(looks.get(path));
  looks.set(path, window.setTimeout(() => void compare(path), ms));
}

async function compare(path: string): Promise<void> {
  looks.delete(path);
  while (underWay.has(path)) await underWay.get(path);
  const document = documents.get().byPath[path];
  if (document?.phase === "loading") missed.add(path);
  else if (document?.phase === "binary") await load(path);
  else if (document?.phase === "ready" && !(await reread(path))) look(path, RETRY_MS);
}

/** Takes note of the file as the sandbox has it now; returns false if the sandbox could not be asked. */
async function reread(path: string): Promise<boolean> {
  const id = theSandbox();
  const before = documents.get().byPath[path];
  const saving = underWay.get(path);
  // A save has begun or ended meanwhile: the answer may be older than that.
  const isOld = (): boolean => {
    const now = documents.get().byPath[path];
    return now?.version !== before?.version || now?.saved !== before?.saved || underWay.get(path) !== saving;
  };
  try {
    const entry = await api.stat(id, path);
    if (entry.size > LARGE && entry.modified === before?.modified && before.saving === "saved") return true;
    const bytes = await (await api.readFile(id, path)).arrayBuffer();
    if (!isOpen(id)) return true;
    if (isOld()) look(path);
    else take(path, bytes, entry.modified);
    return true;
  } catch (problem) {
    if (!isOpen(id)) return true;
    if (!(problem instanceof ApiProblem) || problem.status !== 404) return false;
    if (isOld()) look(path);
    else vanish(path);
    return true;
  }
}

function take(path: string, bytes: ArrayBuffer, modified: number): void {
  const now = documents.get().byPath[path];
  if (!now) return;
  const version = sha256(new Uint8Array(bytes));
  const text = decoded(bytes);
  const seen = { modified, version, removed: false, theirs: null };
  if (text === now.text) change(path, { ...seen, saved: text, saving: "saved" });
  else if (text !== null && (version === now.version || unanswered.get(path)?.includes(version))) {
    change(path, { ...seen, saved: text, saving: "waiting" });
    plan(path, 0);
  } else if (isDirty(now) || now.theirs !== null) {
    change(path, { modified, removed: false, theirs: text ?? new TextDecoder().decode(bytes), theirVersion: version, saving: "failed" });
    if (now.theirs === null && documents.get().active !== path) note(`Someone else changed ${baseOf(path)}`, "Open it and choose a version.");
  } else if (text === null) change(path, { ...seen, phase: "binary", size: bytes.byteLength });
  else change(path, { ...seen, text, saved: text, saving: "saved" });
  unanswered.delete(path);
  keepDraft(path);
}

/** The file is not in the sandbox any more. Text that was never saved is written as a new file. */
function vanish(path: string): void {
  const now = documents.get().byPath[path];
  if (!now) return;
  change(path, { removed: true, theirs: null });
  if (isDirty(now)) plan(path, 0);
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
  drafts.forgetDraft(owner(), path);
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
  keepDraft(newPath);
  plan(newPath);
}

opened.on(({ record, live }) => {
  documents.set({ open: [], active: null, byPath: {} });
  const known = recall<{ open: string[]; active: string | null }>(`tabs.${lasting(record)}`, { open: [], active: null });
  void (async () => {
    const { view } = app.get();
    await Promise.all(known.open.map((path) => openFile(path)));
    if (sandbox.get().live !== live) return; // it has ended meanwhile
    if (known.active) activate(known.active);
    app.set({ view });
  })();
  live.connected.on((connected) => {
    if (!connected) return;
    for (const document of Object.values(documents.get().byPath)) {
      if (document.saving === "failed" && document.theirs === null) plan(document.path, 0);
      else look(document.path); // also one that is being opened, and may have been read before a change
    }
  });
});

left.on(() => {
  keepDrafts();
  for (const timer of [...plans.values(), ...looks.values()]) clearTimeout(timer);
  plans.clear();
  looks.clear();
  unanswered.clear();
  documents.set({ open: [], active: null, byPath: {} });
});

window.addEventListener("pagehide", keepDrafts);
window.addEventListener("beforeunload", (event) => {
  keepDrafts();
  if (unkept.size > 0) event.preventDefault(); // the browser asks whether to leave
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "hidden") return;
  keepDrafts();
  if (sandbox.get().phase === "open") void saveAll();
});
