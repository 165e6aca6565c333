/** The events of runs and commands, as a union for exhaustive `switch` statements. */

import type { DisplayAnswer, ErrorAnswer, ResultAnswer } from "./schema";
import type { ServerEvent } from "./sse";

export type RunEvent =
  | { kind: "started"; run_id: string; pid: number }
  | { kind: "building"; step: string }
  | { kind: "stdout" | "stderr"; text: string }
  | { kind: "waiting"; waiting: boolean }
  | { kind: "result"; result: DisplayAnswer; update: boolean }
  | { kind: "clear" }
  | { kind: "error"; error: ErrorAnswer }
  | { kind: "end" | "exit"; result: ResultAnswer }
  | { kind: "gap"; from: number; to: number };

const known = new Set(["started", "building", "stdout", "stderr", "waiting", "result", "clear", "error", "end", "exit", "gap"]);

/** Parses an event; null for unknown kinds. */
export function runEvent(event: ServerEvent): RunEvent | null {
  if (!known.has(event.kind)) return null;
  return { kind: event.kind, ...(JSON.parse(event.data) as object) } as RunEvent;
}

export const isLast = (event: ServerEvent): boolean => event.kind === "end" || event.kind === "exit";
