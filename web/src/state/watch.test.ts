import { expect, test, vi } from "vitest";
import type { UsageAnswer } from "../api/schema";

vi.stubGlobal("window", { addEventListener: () => undefined });
vi.stubGlobal("document", { addEventListener: () => undefined });
const { costOf, take } = await import("./watch");

const used = (cpu_time: number, memory: number): UsageAnswer => ({
  cpu_time, memory, memory_peak: memory, disk: 0, processes: 1, network: { sent: 0, received: 0 },
});
const nothing = { samples: [], last: null, rates: null, looked: { bytes: 0, ms: 0 } };

test("CPU is what was used between two samples; after a pause there is nothing to compare with", () => {
  let state = { ...nothing, ...take(nothing, used(1, 100), 1000) };
  expect(state.samples.at(-1)?.cpu).toBe(0);
  state = { ...state, ...take(state, used(2.5, 100), 3000) };
  expect(state.samples.at(-1)?.cpu).toBe(0.75);
  state = { ...state, ...take(state, used(9, 100), 60_000) };
  expect(state.samples.at(-1)?.cpu).toBe(0);
  expect(state.looked).toEqual({ bytes: 200_000, ms: 2000 });
});

test("a cost is CPU time and memory, each by its rate", () => {
  const rates = { cpu_hour: 0.5, memory_gb_hour: 0.1, currency: "EUR" };
  const cost = costOf(used(7200, 2 ** 30), { bytes: 2 ** 31 * 1000, ms: 1000 }, 3600, rates);
  expect(cost.cpu).toBeCloseTo(1);
  expect(cost.memory).toBeCloseTo(0.2);
  expect(cost.total).toBeCloseTo(1.2);
});
