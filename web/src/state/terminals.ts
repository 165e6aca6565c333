/** Terminals of the open sandbox. Shells live in the sandbox; a reload finds them again. */

import * as api from "../api/cloche";
import { keep, recall } from "./kept";
import { left, opened, sandbox, theSandbox } from "./sandbox";
import { createStore } from "./store";

export interface Tab {
  key: number;
  /** The command's id in the sandbox; null until the server has sent it. */
  command: string | null;
  title: string;
  phase: "connecting" | "running" | "over";
  exit: number | null;
}

interface Terminals {
  phase: "none" | "loading" | "ready";
  tabs: Tab[];
  active: number | null;
  /** Shown beside the active one. */
  beside: number | null;
}

interface Kept {
  command: string;
  title: string;
}

const nothing: Terminals = { phase: "none", tabs: [], active: null, beside: null };
export const terminals = createStore<Terminals>(nothing);
let last = 0;

function remember(): void {
  const { record } = sandbox.get();
  if (!record) return;
  const running = terminals.get().tabs.filter((tab) => tab.command !== null && tab.phase !== "over");
  keep(`terminals.${record.id}`, running.map(({ command, title }) => ({ command, title })));
}

function named(): string {
  const taken = new Set(terminals.get().tabs.map((tab) => tab.title));
  let number = 1;
  while (taken.has(`Shell ${number}`)) number++;
  return `Shell ${number}`;
}

const fresh = (command: string | null, title: string): Tab => ({ key: ++last, command, title, phase: "connecting", exit: null });

/** Adds a terminal with a new shell, or for a running command. */
export function addTerminal(command: string | null = null, title = named()): Tab {
  const tab = fresh(command, title);
  terminals.set(({ tabs }) => ({ tabs: [...tabs, tab], active: tab.key }));
  remember();
  return tab;
}

export function changeTab(key: number, changes: Partial<Tab>): void {
  terminals.set(({ tabs }) => ({ tabs: tabs.map((tab) => (tab.key === key ? { ...tab, ...changes } : tab)) }));
  remember();
}

export function activateTerminal(key: number): void {
  terminals.set(({ active, beside }) => ({ active: key, beside: beside === key ? active : beside }));
}

/** Toggles the split view. */
export function split(): void {
  const { tabs, active, beside } = terminals.get();
  if (beside !== null) return terminals.set({ beside: null });
  const other = tabs.find((tab) => tab.key !== active) ?? addTerminal();
  terminals.set({ active: active ?? other.key, beside: other.key });
}

/** Close a tab and end its shell. */
export async function closeTerminal(key: number): Promise<void> {
  const tab = terminals.get().tabs.find((one) => one.key === key);
  terminals.set(({ tabs, active, beside }) => {
    const at = tabs.findIndex((one) => one.key === key);
    const rest = tabs.filter((one) => one.key !== key);
    const next = rest[Math.min(at, rest.length - 1)]?.key ?? null;
    const now = active === key ? (beside ?? next) : active;
    return { tabs: rest, active: now, beside: beside === key || beside === now ? null : beside };
  });
  remember();
  if (tab?.command && tab.phase !== "over") await api.killCommand(theSandbox(), tab.command).catch(() => undefined);
}

/** Running terminals without a tab here: another page's or an agent's. */
export async function others(): Promise<{ command: string; title: string }[]> {
  const here = new Set(terminals.get().tabs.map((tab) => tab.command));
  const found = await api.commands(theSandbox());
  return found
    .filter((one) => one.pty && one.running && !here.has(one.id))
    .map((one) => ({ command: one.id, title: typeof one.command === "string" ? one.command.slice(0, 40) : "Shell" }));
}

opened.on(({ record }) => {
  const known = recall<Kept[]>(`terminals.${record.id}`, []);
  if (known.length === 0) return terminals.set({ ...nothing, phase: "ready" });
  terminals.set({ ...nothing, phase: "loading" });
  void (async () => {
    const running = new Set((await api.commands(record.id).catch(() => [])).filter((one) => one.running).map((one) => one.id));
    if (sandbox.get().record?.id !== record.id) return;
    const tabs = known.filter((one) => running.has(one.command)).map((one) => fresh(one.command, one.title));
    terminals.set(({ tabs: begun }) => ({ phase: "ready", tabs: [...tabs, ...begun], active: tabs[0]?.key ?? begun[0]?.key ?? null }));
    remember();
  })();
});

left.on(() => terminals.set(nothing));
