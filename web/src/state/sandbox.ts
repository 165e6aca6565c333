/** The sandbox of this tab: created, opened, left. Other modules subscribe to its signals. */

import * as api from "../api/cloche";
import { ApiProblem } from "../api/http";
import type { LimitsAnswer, SandboxAnswer, SandboxBody } from "../api/schema";
import { Live } from "./live";
import { visible } from "./names";
import { createStore, Signal } from "./store";

export interface OpenSandbox {
  phase: "none" | "opening" | "open" | "ended" | "failed";
  record: SandboxAnswer | null;
  problem: unknown;
  /** Is the live connection open? */
  connected: boolean;
  live: Live | null;
}

const nothing: OpenSandbox = { phase: "none", record: null, problem: null, connected: false, live: null };

export const sandbox = createStore<OpenSandbox>(nothing);
/** A sandbox was opened; parts begin their work for it. */
export const opened = new Signal<{ record: SandboxAnswer; live: Live }>();
/** The sandbox was left or has ended; parts drop their state. */
export const left = new Signal<void>();

const TTL_S = 4 * 3600;
const IDLE_S = 3600;
const LOOK_MS = 250;
const MOST_LOOKS = 20;

/** The open sandbox's id; throws if none is open. */
export function theSandbox(): string {
  const { record } = sandbox.get();
  if (!record) throw new ApiProblem(410, "gone", "No sandbox is open.", "Open one first.");
  return record.id;
}

/** The key of its drafts and notes: the id of its files, which outlives it. */
export const lasting = (record: SandboxAnswer): string => record.workspace ?? record.id;

/** The name of a sandbox that nobody has named: its first run gives it another. */
export const UNNAMED = "Untitled";

/** Anybody with the key can set a name, so what nobody would see in it is spelled out. */
export const nameOf = (record: SandboxAnswer): string => visible(record.metadata.name || record.id.slice(-6));

/** Make a sandbox and open it. */
export async function createAndOpen(name: string, wish: SandboxBody = {}): Promise<SandboxAnswer> {
  sandbox.set({ ...nothing, phase: "opening" });
  try {
    const record = await created({ undo: true, persistent: true, metadata: { name }, ...wish });
    location.hash = `#/s/${record.id}`;
    begin(record);
    return record;
  } catch (problem) {
    sandbox.set({ phase: "failed", problem });
    throw problem;
  }
}

async function created(wish: SandboxBody): Promise<SandboxAnswer> {
  try {
    return await api.createSandbox({ ttl: TTL_S, idle_timeout: IDLE_S, ...wish });
  } catch (problem) {
    if (!(problem instanceof ApiProblem) || problem.kind !== "invalid") throw problem;
    return api.createSandbox(wish); // the operator allows less; use the server's default
  }
}

/** Opens an existing sandbox; an ended one is shown as ended. */
export async function open(id: string): Promise<void> {
  if (sandbox.get().record?.id === id && sandbox.get().phase === "open") return;
  close();
  sandbox.set({ ...nothing, phase: "opening" });
  try {
    const record = await api.sandbox(id);
    if (record.state === "alive") begin(record);
    else sandbox.set({ phase: "ended", record });
  } catch (problem) {
    sandbox.set({ phase: "failed", problem });
  }
}

/** Opens a sandbox with the files of the one that has ended: a new one, or the one in which another tab has them. */
export async function openAgain(): Promise<void> {
  const { record } = sandbox.get();
  if (!record) return;
  close();
  sandbox.set({ phase: "opening" });
  try {
    if (!(await openElsewhere(record))) await createAndOpen(nameOf(record), record.workspace ? { workspace: record.workspace } : {});
  } catch (problem) {
    // Another tab may have been quicker.
    if (await openElsewhere(record).catch(() => false)) return;
    sandbox.set({ ...nothing, phase: "ended", record });
    throw problem;
  }
}

/** Goes to the living sandbox that has the files of an ended one, if there is one. */
async function openElsewhere({ id, workspace }: SandboxAnswer): Promise<boolean> {
  for (let tries = 0; workspace && tries < MOST_LOOKS; tries++) {
    const found = await api.workspace(workspace);
    if (!found.open) return false;
    if (found.sandbox !== id) {
      location.hash = `#/s/${found.sandbox}`;
      return true;
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS)); // the old sandbox is still saving them
  }
  return false;
}

/** Moves the files to a sandbox with other limits. The old one ends, with its variables. */
export async function moveInto(limits: Pick<SandboxBody, keyof LimitsAnswer>): Promise<void> {
  const { record } = sandbox.get();
  if (!record?.workspace) throw new ApiProblem(409, "refused", "The files of this sandbox were not kept.", "Create a new sandbox instead.");
  const { workspace } = record;
  close();
  sandbox.set({ phase: "opening" });
  await api.killSandbox(record.id);
  await createAndOpen(nameOf(record), { ...limits, workspace });
}

function begin(record: SandboxAnswer): void {
  const live = new Live(record.id);
  live.connected.on((connected) => {
    sandbox.set({ connected });
    if (!connected) void lookAgain(record.id);
  });
  live.ended.on((reason) => end(reason));
  sandbox.set({ phase: "open", record, problem: null, connected: false, live });
  opened.emit({ record, live });
}

/** Checks whether the sandbox still exists after a broken connection. */
async function lookAgain(id: string): Promise<void> {
  try {
    const record = await api.sandbox(id);
    if (sandbox.get().record?.id === id && record.state !== "alive") end(record.reason);
  } catch (problem) {
    if (problem instanceof ApiProblem && problem.status === 404) end("it is not known any more");
  }
}

function end(reason: string): void {
  const { record, live, phase } = sandbox.get();
  if (phase !== "open" || !record) return;
  live?.close();
  sandbox.set({ phase: "ended", record: { ...record, state: "ended", reason }, live: null, connected: false });
  left.emit();
}

/** Leave it as it is. */
export function close(): void {
  const { live, phase, record } = sandbox.get();
  live?.close();
  if (phase === "open") {
    sandbox.set({ ...nothing, record }); // the drafts that are stored now belong to it
    left.emit();
  }
  sandbox.set(nothing);
}

/** Changes its name or remaining time. */
export async function change(changes: { name?: string; ttl?: number | null }): Promise<void> {
  const { record } = sandbox.get();
  if (!record) return;
  const wish = {
    ...(changes.name === undefined ? {} : { metadata: { ...record.metadata, name: changes.name } }),
    ...(changes.ttl === undefined ? {} : { ttl: changes.ttl }),
  };
  sandbox.set({ record: await api.changeSandbox(record.id, wish) });
}

export const idInAddress = (): string | null => /^#\/s\/([\w-]+)/.exec(location.hash)?.[1] ?? null;
