/** The history of a session as points: runs, checkpoints, and which are undone. */

import type { CheckpointAnswer, MomentAnswer } from "../api/schema";

export interface Point {
  key: string;
  kind: "run" | "checkpoint" | "restore" | "undo" | "branch" | "restart";
  time: number;
  context: string;
  code: string;
  error: string | null;
  name: string;
  /** The checkpoint to restore: the state before a run, or that of a named checkpoint. */
  checkpoint: CheckpointAnswer | null;
  /** The run was undone: nothing of it is left in variables and files. */
  undone: boolean;
}

const SAME_S = 10; // between a checkpoint and its entry in the history

/** All points, the oldest first. */
export function pointsOf(moments: MomentAnswer[], checkpoints: CheckpointAnswer[]): Point[] {
  const points = moments.map((moment, index): Point => ({
    key: `${moment.time}-${index}`,
    kind: moment.kind as Point["kind"],
    time: moment.time,
    context: moment.context,
    code: moment.code,
    error: moment.error,
    name: moment.name,
    checkpoint: null,
    undone: false,
  }));
  const asked = new Set<string>();
  for (const point of points) {
    if (point.kind !== "checkpoint") continue;
    point.checkpoint = checkpoints.find((one) => (one.name || one.id) === point.name && Math.abs(one.time - point.time) < SAME_S) ?? null;
    if (point.checkpoint) asked.add(point.checkpoint.id);
  }
  // The other checkpoints were made before runs, for undo: each belongs to the run that ended next.
  const before = checkpoints.filter((one) => !asked.has(one.id) && !one.name);
  const used = new Set<string>();
  for (const point of points) {
    if (point.kind !== "run") continue;
    const mine = before.filter((one) => one.time <= point.time && !used.has(one.id)).at(-1);
    if (!mine) continue;
    used.add(mine.id);
    point.checkpoint = mine;
  }
  markUndone(points, checkpoints);
  return points;
}

function markUndone(points: Point[], checkpoints: CheckpointAnswer[]): void {
  const branches = new Set(points.filter((point) => point.kind === "branch").map((point) => point.context));
  // Undo checkpoints are made before Python runs outside branches; an undo also removes the runs since then.
  const isUndoable = (point: Point) => point.kind === "run" && !point.undone && point.context.startsWith("python") && !branches.has(point.context);
  points.forEach((point, index) => {
    const earlier = points.slice(0, index);
    if (point.kind === "undo") {
      const last = earlier.findLastIndex(isUndoable);
      if (last >= 0) for (const one of earlier.slice(last)) one.undone ||= one.kind === "run";
    } else if (point.kind === "restore") {
      const since = timeOf(point.name, earlier, checkpoints);
      for (const one of earlier) if (since !== null && one.time > since && one.kind === "run") one.undone = true;
    }
  });
}

function timeOf(name: string, earlier: Point[], checkpoints: CheckpointAnswer[]): number | null {
  const known = checkpoints.find((one) => (one.name || one.id) === name);
  return known?.time ?? earlier.filter((one) => one.kind === "checkpoint" && one.name === name).at(-1)?.time ?? null;
}

/** Which runs were undone, by the digests of their code. The last run with some code is the last point with it. */
export function areUndone(digests: string[], points: { digest: string; undone: boolean }[]): boolean[] {
  const left = [...points];
  const found = [...digests].reverse().map((digest) => {
    const at = left.findLastIndex((point) => point.digest === digest);
    return at >= 0 && (left.splice(at, 1)[0]?.undone ?? false);
  });
  return found.reverse();
}

const MARK = /^(?:#|\/\/|--)\s*%%\s*/;
const MODEST = /^(?:import|from|use|using|#include|package|const \w+ = require)\b|^[)}\]]/;

/** A title for code: its cell's title, else the first line that does something. */
export function firstLine(code: string): string {
  const lines = code.split("\n").map((line) => line.trim()).filter(Boolean);
  const title = lines[0] && MARK.test(lines[0]) ? lines[0].replace(MARK, "") : "";
  const rest = lines.filter((line) => !MARK.test(line));
  return title || (rest.find((line) => !MODEST.test(line)) ?? rest[0] ?? "");
}

interface Lost {
  threads?: string[];
  children?: number;
  sockets?: number;
  /** Why the context's variables are missing. */
  variables?: string;
}

const many = (count: number, one: string, several: string): string => `${count} ${count === 1 ? one : several}`;

/** Describes what a checkpoint does not include; empty if nothing is missing. */
export function lostInWords(lost: Record<string, unknown>): string {
  const sums = { threads: 0, children: 0, sockets: 0 };
  const without: string[] = [];
  for (const [name, one] of Object.entries(lost) as [string, Lost][]) {
    if (one.variables) without.push(name);
    sums.threads += one.threads?.length ?? 0;
    sums.children += one.children ?? 0;
    sums.sockets += one.sockets ?? 0;
  }
  return [
    without.length ? `the variables of ${without.join(" and ")}` : "",
    sums.threads ? many(sums.threads, "thread", "threads") : "",
    sums.children ? many(sums.children, "child process", "child processes") : "",
    sums.sockets ? many(sums.sockets, "socket", "sockets") : "",
  ]
    .filter(Boolean)
    .join(", ");
}
