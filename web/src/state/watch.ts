/** Usage of the open sandbox, second by second, and its estimated cost. */

import * as beyond from "../api/beyond";
import type { LimitsAnswer, RatesAnswer, UsageAnswer } from "../api/schema";
import { left, opened, sandbox } from "./sandbox";
import { createStore } from "./store";

export interface Sample {
  /** Milliseconds since the epoch. */
  time: number;
  /** Cores in use since the sample before. */
  cpu: number;
  memory: number;
  disk: number;
  processes: number;
}

interface Watch {
  samples: Sample[];
  last: UsageAnswer | null;
  rates: RatesAnswer | null;
  /** The sum of memory × time while watched, for the mean. */
  looked: { bytes: number; ms: number };
}

const nothing = { samples: [], last: null, looked: { bytes: 0, ms: 0 } };
export const KEPT = 180;
const GAP_MS = 10_000; // nobody was watching
export const watch = createStore<Watch>({ ...nothing, rates: null });

export function take(was: Watch, used: UsageAnswer, now: number): Partial<Watch> {
  const before = was.samples.at(-1);
  const passed = before ? now - before.time : 0;
  const isNext = before !== undefined && was.last !== null && passed > 0 && passed < GAP_MS;
  const cpu = isNext && was.last ? Math.max(0, (used.cpu_time - was.last.cpu_time) / (passed / 1000)) : 0;
  const sample = { time: now, cpu, memory: used.memory, disk: used.disk, processes: used.processes };
  const looked = isNext ? { bytes: was.looked.bytes + used.memory * passed, ms: was.looked.ms + passed } : was.looked;
  return { last: used, samples: [...was.samples, sample].slice(-KEPT), looked };
}

export interface Cost {
  cpu: number;
  memory: number;
  total: number;
  cpuHours: number;
  memoryHours: number;
}

/** Estimates the cost: CPU time used, and mean observed memory over the sandbox's life. */
export function costOf(used: UsageAnswer, looked: Watch["looked"], aliveS: number, rates: RatesAnswer): Cost {
  const mean = looked.ms > 0 ? looked.bytes / looked.ms : used.memory;
  const cpuHours = used.cpu_time / 3600;
  const memoryHours = (mean / 2 ** 30) * (aliveS / 3600);
  const cpu = cpuHours * rates.cpu_hour;
  const memory = memoryHours * rates.memory_gb_hour;
  return { cpu, memory, total: cpu + memory, cpuHours, memoryHours };
}

/** The limit to draw as a line, or null. */
export const limitOf = (limits: LimitsAnswer, what: "cpu" | "memory" | "disk" | "processes"): number => limits[what];

let watchers = 0;

/** Requests usage while the panel is visible; returns a function that stops it. */
export function look(): () => void {
  if (++watchers === 1) sandbox.get().live?.sample(1);
  if (!watch.get().rates) void beyond.rates().then((rates) => watch.set({ rates }), () => undefined);
  return () => {
    if (--watchers === 0) sandbox.get().live?.sample(0);
  };
}

opened.on(({ live }) => {
  watch.set(nothing);
  live.used.on((used) => watch.set((was) => take(was, used, Date.now())));
  if (watchers > 0) live.sample(1);
});
left.on(() => watch.set(nothing));
