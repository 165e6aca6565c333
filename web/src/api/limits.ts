// Written by scripts/page_types.py from src/cloche/model/limits.py. Do not edit.

import type { LimitsAnswer } from "./schema";

export interface Limit {
  name: keyof LimitsAnswer;
  unit: "bytes" | "cores" | "processes" | "seconds";
  title: string;
  low: number;
  high: number;
}

export const LIMITS: readonly Limit[] = [
  { name: "timeout", unit: "seconds", title: "Time for each run", low: 0.001, high: 604800 },
  { name: "memory", unit: "bytes", title: "Memory", low: 16777216, high: 17592186044416 },
  { name: "cpu", unit: "cores", title: "CPU", low: 0.01, high: 1024 },
  { name: "disk", unit: "bytes", title: "Disk", low: 1048576, high: 17592186044416 },
  { name: "processes", unit: "processes", title: "Processes", low: 1, high: 1048576 },
  { name: "output", unit: "bytes", title: "Output", low: 0, high: 17179869184 },
  { name: "build_timeout", unit: "seconds", title: "Time for compilers", low: 0.001, high: 604800 },
];
