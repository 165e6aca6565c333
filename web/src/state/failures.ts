/** The lines at which the last run failed, until they are edited or something runs again. */

import { positionOf } from "./calls";
import { cellOf } from "./notebooks";
import { left } from "./sandbox";
import { runBegan, runEnded, type Run } from "./runs";
import { createStore } from "./store";

export interface Failure {
  path: string;
  line: number;
  /** For a line in a notebook: the cell, and the code that has run in it. */
  cell: { key: string; code: string } | null;
  /** What happened, at the line where it did; empty for a line that only called it. */
  message: string;
}

export const failures = createStore<{ all: Failure[] }>({ all: [] });

const SHOWN = 80; // characters at the line; a hint has the whole message

/** The beginning of a message, to be shown beside the line. */
export function firstLine(message: string): string {
  const line = message.split("\n", 1)[0] ?? "";
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
}

const edited = new Map<string, number>();

/** Notes that a file has changed, so that its lines are others now. */
export function fileChanged(path: string): void {
  edited.set(path, Date.now());
  if (failuresIn(failures.get().all, path).length > 0) failures.set(({ all }) => ({ all: all.filter((one) => one.path !== path || one.cell) }));
}

/** The failing line of the user's own code first, then the lines that called it. */
export function failuresOf(run: Run): Failure[] {
  const error = run.result?.error;
  const first = error?.raised?.[0];
  if (!error || !first) return [];
  const message = [error.name, first.message || error.message].filter(Boolean).join(": ");
  const found: Failure[] = [];
  for (const frame of first.frames) {
    const position = frame.is_own ? positionOf(run, frame) : null;
    if (!position) continue;
    const { path, line, cell: origin } = position;
    const key = origin && cellOf(origin)?.key;
    if (origin && !key) continue;
    if (found.some((one) => one.path === path && one.cell?.key === key && one.line === line)) continue;
    found.push({ path, line, cell: origin && key ? { key, code: origin.asked.code } : null, message: found.length === 0 ? message : "" });
  }
  return found.filter(({ path, cell }) => cell !== null || (edited.get(path) ?? 0) < run.began);
}

/** The failing lines of a file, or of a cell as long as it has the code that failed. */
export const failuresIn = (all: Failure[], path: string): Failure[] => all.filter((one) => one.path === path && !one.cell);
export const failuresInCell = (all: Failure[], key: string, code: string): Failure[] =>
  all.filter(({ cell }) => cell?.key === key && cell.code === code);

const clear = () => failures.set({ all: [] });

runBegan.on((run) => {
  if (!run.isOthers) clear();
});
runEnded.on((run) => {
  if (run.asOf !== null) return; // files may have changed since it ended, before this page was opened
  const found = failuresOf(run);
  if (found.length > 0) failures.set({ all: found });
});
left.on(clear);
