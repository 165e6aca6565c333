/** The key of this browser, all keys if it is an admin's, and what they have used. */

import * as api from "../api/keys";
import type { CurrentKeyAnswer, DayAnswer, KeyAnswer, KeyBody } from "../api/schema";
import { createStore } from "./store";

export const DAYS = 30;

interface Keys {
  phase: "none" | "ready" | "failed";
  problem: unknown;
  current: CurrentKeyAnswer | null;
  /** All keys, the newest first; null for a key that may not see them. */
  all: KeyAnswer[] | null;
  /** The use of the owner, or of the whole server for an admin, by day; days without use included. */
  days: Record<string, DayAnswer>;
  /** The same for each key by id, without days on which it was not used. */
  byKey: Record<string, Record<string, DayAnswer>>;
}

export const keys = createStore<Keys>({ phase: "none", problem: null, current: null, all: null, days: {}, byKey: {} });

export const isAdmin = (current: CurrentKeyAnswer | null): boolean => current?.scopes.includes("admin") ?? false;

/** Finds out which key this browser is signed in with. */
export async function loadCurrent(): Promise<void> {
  keys.set({ current: await api.currentKey() });
}

export async function loadKeys(): Promise<void> {
  try {
    const current = await api.currentKey();
    const [used, all, byKey] = await Promise.all([
      api.usage(DAYS),
      isAdmin(current) ? api.keys() : null,
      isAdmin(current) ? api.usageByKey(DAYS) : [],
    ]);
    const each = Object.fromEntries(byKey.map((one) => [one.key, one.days]));
    const days = isAdmin(current) ? summed(Object.keys(used.days), Object.values(each)) : used.days;
    keys.set({ phase: "ready", problem: null, current, all: all && [...all].sort((one, other) => other.created - one.created), days, byKey: each });
  } catch (problem) {
    keys.set(({ phase }) => ({ phase: phase === "ready" ? "ready" : "failed", problem }));
  }
}

/** The sum of several uses on each of these days. */
export function summed(dates: string[], uses: Record<string, DayAnswer>[]): Record<string, DayAnswer> {
  return Object.fromEntries(dates.map((date) => [date, total(uses.flatMap((use) => use[date] ?? []))]));
}

export function total(days: DayAnswer[]): DayAnswer {
  const sum = (of: (day: DayAnswer) => number) => days.reduce((before, day) => before + of(day), 0);
  return { runs: sum((day) => day.runs), cpu_time: sum((day) => day.cpu_time), bytes: sum((day) => day.bytes) };
}

/** Creates a key and returns its secret, which the server does not tell again. */
export async function createKey(body: KeyBody): Promise<string> {
  const made = await api.createKey(body);
  return made.key ?? "";
}

export async function revokeKey(id: string): Promise<void> {
  await api.revokeKey(id);
  await loadKeys();
}

/** The limits of a key, with words for people. */
export const LIMITS = [
  { name: "runs_at_once", title: "Runs at once", unit: "count", today: false },
  { name: "sandboxes", title: "Sandboxes at once", unit: "count", today: false },
  { name: "requests_per_second", title: "Requests per second", unit: "count", today: false },
  { name: "cpu_seconds_per_day", title: "CPU time per day", unit: "seconds", today: true },
  { name: "bytes_per_day", title: "Data per day", unit: "bytes", today: true },
] as const;
