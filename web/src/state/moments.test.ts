import { expect, test } from "vitest";
import type { CheckpointAnswer, MomentAnswer } from "../api/schema";
import { areUndone, firstLine, lostInWords, pointsOf } from "./moments";

const moment = (kind: string, time: number, more: Partial<MomentAnswer> = {}): MomentAnswer => ({
  kind, time, context: "python", code: "", error: null, name: "", ...more,
});
const checkpoint = (id: string, time: number, name = ""): CheckpointAnswer => ({ id, name, time, lost: {}, note: "" });

test("a run goes back to the checkpoint from before it, and a named one to itself", () => {
  const points = pointsOf(
    [moment("run", 11, { code: "a" }), moment("checkpoint", 20.1, { name: "good" }), moment("run", 31, { code: "b" }), moment("run", 32, { context: "bash" })],
    [checkpoint("checkpoint-1", 10), checkpoint("checkpoint-2", 20, "good"), checkpoint("checkpoint-3", 30)],
  );
  expect(points.map((point) => point.checkpoint?.id ?? null)).toEqual(["checkpoint-1", "checkpoint-2", "checkpoint-3", null]);
});

test("the checkpoint of a run that was undone is gone, and no other is taken for it", () => {
  const points = pointsOf(
    [moment("run", 11), moment("run", 21), moment("undo", 22), moment("run", 31)],
    [checkpoint("checkpoint-1", 10), checkpoint("checkpoint-3", 30)],
  );
  expect(points.map((point) => point.checkpoint?.id ?? null)).toEqual(["checkpoint-1", null, null, "checkpoint-3"]);
  expect(points.map((point) => point.undone)).toEqual([false, true, false, false]);
});

test("going back undoes all runs since, and an undo after that the run before", () => {
  const points = pointsOf(
    [moment("run", 5), moment("checkpoint", 10, { name: "here" }), moment("run", 11), moment("run", 12), moment("restore", 13, { name: "here" }), moment("run", 14), moment("undo", 15)],
    [checkpoint("checkpoint-1", 10, "here")],
  );
  expect(points.filter((point) => point.undone).map((point) => point.time)).toEqual([11, 12, 14]);
});

test("an undo takes the last Python run back, and what ran after it; a branch is none of its business", () => {
  const points = pointsOf(
    [moment("run", 1), moment("branch", 2, { context: "python-2" }), moment("run", 3), moment("run", 4, { context: "bash" }), moment("undo", 5), moment("run", 6, { context: "python-2" }), moment("undo", 7)],
    [],
  );
  expect(points.filter((point) => point.undone).map((point) => point.time)).toEqual([1, 3, 4, 6]);
});

test("a run is known by the title of its cell, or by what it does", () => {
  expect(firstLine("# %% Load\n\nimport pandas as pd\n")).toBe("Load");
  expect(firstLine("# %%\nimport pandas as pd\n\ndf = pd.read_csv('x')\n")).toBe("df = pd.read_csv('x')");
  expect(firstLine("import os")).toBe("import os");
  expect(firstLine("")).toBe("");
});

test("what a checkpoint cannot carry is said in words", () => {
  expect(lostInWords({ python: { threads: ["a", "b"], children: 1, sockets: 0 }, other: { threads: [], children: 0, sockets: 2 } })).toBe(
    "2 threads, 1 child process, 2 sockets",
  );
  expect(lostInWords({ bash: { variables: "language" } })).toBe("the variables of bash");
  expect(lostInWords({})).toBe("");
});

test("runs are found among the points by their code, the last first", () => {
  const point = (digest: string, undone: boolean) => ({ digest, undone });
  expect(areUndone(["a", "b"], [point("a", false), point("b", true)])).toEqual([false, true]);
  // The first "a" was cleared from the page, and "c" comes from elsewhere.
  expect(areUndone(["a", "b", "c"], [point("a", true), point("b", true), point("a", false)])).toEqual([false, true, false]);
  expect(areUndone(["a", "a"], [point("a", false), point("a", true)])).toEqual([false, true]);
});
