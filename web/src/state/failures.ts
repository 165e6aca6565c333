/** The lines at which the last run failed, until they are edited or something runs again. */

import { positionOf } from "./calls";
import { left } from "./sandbox";
import { runBegan, runEnded, type Run } from "./runs";
import { createStore } from "./store";

export interface Failure {
  path: string;
  line: number;
  /** What happened, at the line where it did; empty for a line that only called it. */
  message: string;
}

export const failures = createStore<{ all: Failure[] }>({ all: [] });

const edited = new Map<string, number>();

/** Notes that a file has changed, so that its lines are others now. */
export function fileChanged(path: string): void {
  edited.set(path, Date.now());
  if (failures.get().all.some((one) => one.path === path)) failures.set(({ all }) => ({ all: all.filter((one) => one.path !== path) }));
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
    if (!position || position.cell || found.some((one) => one.path === position.path && one.line === position.line)) continue;
    found.push({ path: position.path, line: position.line, message: found.length === 0 ? message : "" });
  }
  return found.filter(({ path }) => (edited.get(path) ?? 0) < run.began);
}

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
