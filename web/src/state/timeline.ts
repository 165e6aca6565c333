/** Runs and checkpoints of the open sandbox: restore, branch, compare. */

import * as beyond from "../api/beyond";
import * as api from "../api/cloche";
import { ApiProblem } from "../api/http";
import type { CheckpointAnswer, ComparedAnswer, RestoredAnswer } from "../api/schema";
import { documents, edit, saveAll } from "./documents";
import { inspector } from "./inspector";
import { areUndone, firstLine, lostInWords, pointsOf, type Point } from "./moments";
import { runEnded, runs, runsRecovered, type Run } from "./runs";
import { left, opened, sandbox, theSandbox } from "./sandbox";
import { sha256 } from "./sha256";
import { createStore } from "./store";
import { attempt, note } from "./toasts";
import { baseOf } from "./tree";

/** One side of a comparison: a checkpoint, or now. */
export interface Side {
  checkpoint: string | null;
  label: string;
}

interface Comparison {
  before: Side;
  after: Side;
  answer: ComparedAnswer | null;
  problem: unknown;
}

interface Timeline {
  phase: "none" | "loading" | "ready" | "failed";
  problem: unknown;
  points: Point[];
  checkpoints: CheckpointAnswer[];
  /** The action in progress; all others wait. */
  busy: "" | "undo" | "restore" | "branch" | "checkpoint";
  /** The first point of a comparison, while the person chooses the second. */
  chosen: Side | null;
  comparison: Comparison | null;
  /** Editor text that a restore replaced; it can be brought back. */
  replaced: { path: string; text: string }[];
}

const nothing: Timeline = {
  phase: "none",
  problem: null,
  points: [],
  checkpoints: [],
  busy: "",
  chosen: null,
  comparison: null,
  replaced: [],
};

export const timeline = createStore<Timeline>(nothing);
export const NOW: Side = { checkpoint: null, label: "now" };

async function load(): Promise<void> {
  const { record } = sandbox.get();
  if (!record) return;
  const over = runs.get().all.filter((run) => run.asked.kind === "cell" && (run.isOver || run.asOf !== null));
  try {
    const [moments, checkpoints] = await Promise.all([api.history(record.id), api.checkpoints(record.id)]);
    if (sandbox.get().record?.id !== record.id) return;
    const points = pointsOf(moments, checkpoints);
    timeline.set({ phase: "ready", problem: null, checkpoints, points });
    markUndone(over, points);
    await checkBranch(record.id);
  } catch (problem) {
    if (sandbox.get().phase === "open") timeline.set({ phase: "failed", problem });
  }
}

function markUndone(over: Run[], points: Point[]): void {
  const encoder = new TextEncoder();
  const ran = points.filter((point) => point.kind === "run").map((point) => ({ digest: sha256(encoder.encode(point.code)), undone: point.undone }));
  const undone = areUndone(over.map((run) => run.digest), ran);
  over.forEach((run, index) => {
    if (run.undone === undone[index]) return;
    run.undone = undone[index] ?? false;
    run.tell();
  });
}

/** Leaves a branch that a restore has removed. */
async function checkBranch(id: string): Promise<void> {
  const { context } = inspector.get();
  if (context === null) return;
  const there = await api.contexts(id);
  if (inspector.get().context === context && !there.some((one) => one.id === context)) inspector.set({ context: null });
}

export function retry(): void {
  timeline.set({ phase: "loading" });
  void load();
}

let timer = 0;

function soon(): void {
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    void load();
  }, 150);
}

/** What a point is called. */
export const labelOf = (point: Point): string =>
  point.kind === "checkpoint" ? (point.name.startsWith("checkpoint-") ? "Checkpoint" : point.name) : firstLine(point.code) || point.kind;

async function busily(what: Timeline["busy"], work: () => Promise<void>): Promise<void> {
  if (timeline.get().busy) return;
  timeline.set({ busy: what });
  try {
    await work();
  } finally {
    timeline.set({ busy: "" });
    await load();
  }
}

function tellRestored(title: string, restored: RestoredAnswer): void {
  const lost = lostInWords(restored.lost);
  const parts = [
    restored.restarted.length > 0 ? `${restored.restarted.join(", ")} restarted` : "",
    lost ? `not restored: ${lost}` : "",
  ].filter(Boolean);
  const hint = parts.join("; ");
  note(title, hint ? `${hint[0]?.toUpperCase()}${hint.slice(1)}.` : "Variables and files are restored.");
}

/** The current editor texts. A restore replaces them, and nobody should lose what they typed. */
async function typed(): Promise<{ path: string; text: string }[]> {
  await saveAll();
  return Object.values(documents.get().byPath)
    .filter((document) => document.phase === "ready")
    .map(({ path, text }) => ({ path, text }));
}

/** The texts that differ from their files, and the version of each file. */
async function different(texts: { path: string; text: string }[]): Promise<{ path: string; text: string; version: string }[]> {
  const id = theSandbox();
  const now = await Promise.all(texts.map(({ path }) => api.readFile(id, path).then((answer) => answer.arrayBuffer(), () => null)));
  return texts.flatMap(({ path, text }, index) => {
    const bytes = now[index] ?? null;
    if (bytes !== null && new TextDecoder().decode(bytes) === text) return [];
    return [{ path, text, version: bytes === null ? "" : sha256(new Uint8Array(bytes)) }];
  });
}

/** Writes a text, unless somebody else has written the file in the meantime. */
async function putBack(path: string, text: string, version: string): Promise<void> {
  try {
    await api.writeFile(theSandbox(), path, text, version);
  } catch (problem) {
    if (!(problem instanceof ApiProblem) || problem.status !== 412) throw problem;
    edit(path, text); // the person chooses
  }
}

/** Undoes the last run: variables and files return to their state before it. Typed text stays. */
export const undo = (): void =>
  attempt(() =>
    busily("undo", async () => {
      const texts = await typed();
      const restored = await api.undo(theSandbox());
      for (const { path, text, version } of await different(texts)) await putBack(path, text, version);
      tellRestored("Last run undone", restored);
    }),
  );

/** Restores a checkpoint: variables and files, including those open in the editor. */
export const goBack = (checkpoint: CheckpointAnswer, label: string): void =>
  attempt(() =>
    busily("restore", async () => {
      const texts = await typed();
      const restored = await api.restoreCheckpoint(theSandbox(), checkpoint.id);
      timeline.set({ replaced: await different(texts) });
      inspector.set({ context: null });
      tellRestored(label, restored);
    }),
  );

/** Restores the editor texts from before a restore. */
export const bringBackTyped = (): void => {
  const { replaced } = timeline.get();
  timeline.set({ replaced: [] });
  attempt(async () => {
    for (const { path, text } of replaced) {
      await api.writeFile(theSandbox(), path, text);
      edit(path, text);
    }
    note(replaced.length === 1 ? `Restored your text in ${baseOf(replaced[0]?.path ?? "")}` : "Restored your text");
  });
};

export const keepReplaced = (): void => timeline.set({ replaced: [] });

/** Creates a context that continues from a checkpoint, and runs in it from now on. */
export const branchFrom = (checkpoint: CheckpointAnswer): void =>
  attempt(() =>
    busily("branch", async () => {
      const branch = await beyond.fork(theSandbox(), checkpoint.id);
      inspector.set({ context: branch.id });
      note("Switched to a branch", "It has the variables of that point. Files are shared with the main line.");
    }),
  );

/** Returns to the main line and ends the branch. */
export const leaveBranch = (): void =>
  attempt(async () => {
    const { context } = inspector.get();
    inspector.set({ context: null });
    if (context) await beyond.removeContext(theSandbox(), context);
    await load();
  });

export const keepMoment = (name: string): void =>
  attempt(() =>
    busily("checkpoint", async () => {
      await saveAll();
      const taken = await api.createCheckpoint(theSandbox(), name);
      const lost = lostInWords(taken.lost);
      note(name ? `“${name}” is kept` : "Checkpoint saved", lost ? `It does not include ${lost}.` : "");
    }),
  );

export const forgetMoment = (checkpoint: CheckpointAnswer): void =>
  attempt(async () => {
    await beyond.removeCheckpoint(theSandbox(), checkpoint.id);
    await load();
  });

// --- comparing

export const choose = (side: Side | null): void => timeline.set({ chosen: side });

export function compareWith(before: Side, after: Side): void {
  const comparison: Comparison = { before, after, answer: null, problem: null };
  timeline.set({ comparison, chosen: null });
  void saveAll()
    .then(() => beyond.compare(theSandbox(), before.checkpoint, after.checkpoint))
    .then(
      (answer) => timeline.get().comparison === comparison && timeline.set({ comparison: { ...comparison, answer } }),
      (problem: unknown) => timeline.get().comparison === comparison && timeline.set({ comparison: { ...comparison, problem } }),
    );
}

export const closeComparison = (): void => timeline.set({ comparison: null });

const telling = /^(run\.(started|end|error)|checkpoint|restore|undo|fork|context|restart)$/;

opened.on(({ live }) => {
  timeline.set({ ...nothing, phase: "loading" });
  void load();
  live.happened.on((happened) => {
    if (telling.test(happened.kind)) soon();
  });
  live.connected.on((connected) => connected && soon());
});
runEnded.on(soon);
runsRecovered.on(soon);
left.on(() => {
  timeline.set(nothing);
  inspector.set({ context: null });
});
