/** All sandboxes of this key, and the kept files of ended ones. */

import * as beyond from "../api/beyond";
import * as api from "../api/cloche";
import type { ContextAnswer, SandboxAnswer, UsageAnswer, WorkspaceAnswer } from "../api/schema";
import { createAndOpen, sandbox } from "./sandbox";
import { createStore } from "./store";

export interface Session {
  record: SandboxAnswer;
  usage: UsageAnswer | null;
  contexts: ContextAnswer[];
}

interface Sessions {
  phase: "none" | "ready" | "failed";
  problem: unknown;
  alive: Session[];
  /** Kept files of ended sandboxes, with the sandbox's name. */
  kept: { workspace: WorkspaceAnswer; name: string }[];
}

export const sessions = createStore<Sessions>({ phase: "none", problem: null, alive: [], kept: [] });

const EVERY_MS = 4000;
const MOST_MEASURED = 12; // more are not measured

export async function refresh(): Promise<void> {
  try {
    const [alive, workspaces, ended] = await Promise.all([api.sandboxes("alive"), api.workspaces(), api.sandboxes("ended").catch(() => [])]);
    const known = new Map(sessions.get().alive.map((one) => [one.record.id, one]));
    const names = new Map(ended.map((record) => [record.id, record.metadata.name ?? ""]));
    sessions.set({
      phase: "ready",
      problem: null,
      alive: alive.map((record) => ({ record, usage: known.get(record.id)?.usage ?? null, contexts: known.get(record.id)?.contexts ?? [] })),
      kept: workspaces
        .filter((workspace) => !workspace.open && workspace.files > 0)
        .map((workspace) => ({ workspace, name: names.get(workspace.sandbox) || workspace.sandbox.slice(-6) })),
    });
    await Promise.all(alive.filter((record) => !record.paused).slice(0, MOST_MEASURED).map(measure));
  } catch (problem) {
    sessions.set(({ phase }) => ({ phase: phase === "ready" ? "ready" : "failed", problem }));
  }
}

async function measure({ id }: SandboxAnswer): Promise<void> {
  const [usage, contexts] = await Promise.all([api.usage(id).catch(() => null), api.contexts(id).catch(() => [])]);
  sessions.set(({ alive }) => ({ alive: alive.map((one) => (one.record.id === id ? { ...one, usage: usage ?? one.usage, contexts } : one)) }));
}

/** Polls while the list is visible; returns a function that stops it. */
export function followSessions(): () => void {
  void refresh();
  const timer = window.setInterval(() => {
    if (document.visibilityState === "visible") void refresh();
  }, EVERY_MS);
  return () => clearInterval(timer);
}

function learned(record: SandboxAnswer): void {
  sessions.set(({ alive }) => ({ alive: alive.map((one) => (one.record.id === record.id ? { ...one, record } : one)) }));
  if (sandbox.get().record?.id === record.id) sandbox.set({ record });
}

export const nameSession = async (record: SandboxAnswer, name: string): Promise<void> =>
  learned(await api.changeSandbox(record.id, { metadata: { ...record.metadata, name } }));

/** Sets the remaining life in seconds. */
export const extendSession = async (record: SandboxAnswer, ttl: number): Promise<void> => learned(await api.changeSandbox(record.id, { ttl }));

export async function endSession(id: string): Promise<void> {
  await api.killSandbox(id);
  sessions.set(({ alive }) => ({ alive: alive.filter((one) => one.record.id !== id) }));
  await refresh();
}

/** Opens kept files in a new sandbox. */
export const reopen = async (workspace: string, name: string): Promise<void> => void (await createAndOpen(name, { workspace }));

export async function removeKept(workspace: string): Promise<void> {
  await beyond.removeWorkspace(workspace);
  await refresh();
}

/** The remaining time as text. */
export function timeLeft(expires: number | null, now = Date.now() / 1000): string {
  if (expires === null) return "no end";
  const left = Math.max(0, expires - now);
  if (left > 2 * 86400) return `${Math.round(left / 86400)} days left`;
  if (left > 5400) return `${Math.round(left / 3600)} h left`;
  return `${Math.ceil(left / 60)} min left`;
}
