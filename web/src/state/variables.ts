/** The variables of a session, as they are after each run. */

import * as api from "../api/cloche";
import * as beyond from "../api/beyond";
import type { ContextAnswer, VariableAnswer } from "../api/schema";
import { runBegan, runEnded, type Run } from "./runs";
import { left, opened, theSandbox } from "./sandbox";
import { createStore } from "./store";

interface Variables {
  phase: "none" | "ready" | "failed";
  problem: unknown;
  contexts: ContextAnswer[];
  /** The context that is shown. */
  context: string | null;
  state: "ready" | "busy" | "unsupported";
  /** While code runs: those from before. */
  items: VariableAnswer[];
  total: number;
  search: string;
  /** Names that are new or have another value since the last run. */
  changed: Set<string>;
}

const nothing: Variables = {
  phase: "none",
  problem: null,
  contexts: [],
  context: null,
  state: "ready",
  items: [],
  total: 0,
  search: "",
  changed: new Set(),
};
const SOON_MS = 120;
export const variables = createStore<Variables>(nothing);

let watchers = 0;
let timer = 0;
let asked = 0; // counts requests: the answer to an older one is dropped
let last: string | null = null; // the context of the last run

/** Keeps the list up to date while the panel is visible; returns a function that stops it. */
export function watchVariables(): () => void {
  watchers++;
  void refresh();
  return () => void watchers--;
}

/** Shows the variables of another context. */
export function choose(context: string): void {
  variables.set({ context, items: [], total: 0, changed: new Set() });
  void refresh();
}

/** Searches by name; the page has all variables unless there are very many. */
export function search(text: string): void {
  const { items, total, search: before } = variables.get();
  variables.set({ search: text });
  if (before || items.length < total) soon();
}

/** More of one value; null if the variable is gone, or code is running. */
export async function lookAt(name: string): Promise<VariableAnswer | null> {
  const { context } = variables.get();
  if (context === null) return null;
  return (await beyond.variables(theSandbox(), context, { name })).items[0] ?? null;
}

export async function refresh(): Promise<void> {
  const number = ++asked;
  try {
    const contexts = await api.contexts(theSandbox());
    const { context: chosen, search: text, items: before, context: was } = variables.get();
    const context = [chosen, last].find((one) => contexts.some(({ id }) => id === one)) ?? contexts[0]?.id ?? null;
    const found = context === null ? null : await beyond.variables(theSandbox(), context, text ? { search: text } : {});
    if (number !== asked) return;
    variables.set({ phase: "ready", contexts, context, state: found?.state ?? "ready" });
    if (found?.state === "busy") return;
    const items = found?.items ?? [];
    const known = new Map(before.map((one) => [one.name, JSON.stringify(one)]));
    const differs = (one: VariableAnswer) => !text && context === was && known.size > 0 && known.get(one.name) !== JSON.stringify(one);
    variables.set({ items, total: found?.total ?? 0, changed: new Set(items.filter(differs).map((one) => one.name)) });
  } catch (problem) {
    if (number === asked) variables.set({ phase: "failed", problem });
  }
}

function soon(): void {
  clearTimeout(timer);
  if (watchers > 0) timer = window.setTimeout(() => void refresh(), SOON_MS);
}

const isShown = (run: Run): boolean => watchers > 0 && run.asked.kind === "cell";

runBegan.on((run) => {
  if (isShown(run)) variables.set({ state: "busy" });
});
runEnded.on((run) => {
  const context = run.result?.context ?? last;
  // Whoever goes on in another session wants to see that one.
  if (context !== last && !run.isOthers && context !== variables.get().context) variables.set({ context, items: [], total: 0, changed: new Set() });
  last = context;
  if (isShown(run)) soon();
});

opened.on(({ live }) => {
  live.happened.on(({ kind }) => {
    if (["restart", "restore", "undo", "fork", "context"].includes(kind)) soon();
  });
  soon();
});
left.on(() => {
  asked++;
  last = null;
  variables.set(nothing);
});
