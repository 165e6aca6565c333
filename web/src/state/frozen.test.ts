import { expect, test } from "vitest";
import type { SharedRun } from "../api/schema";
import { frozen, thawed } from "./frozen";
import { Lines } from "./lines";

const run = (pieces: SharedRun["pieces"]): SharedRun => ({ title: "", language: "python", code: "", time: 0, undone: false, pieces });

test("what a run showed is the same after it was shared", () => {
  const lines = new Lines();
  lines.push("stdout", "one\n\x1b[31mred\nstill red\x1b[0m\n");
  lines.push("stderr", "oh\n");
  lines.push("stdout", "two");
  const display = { mime: { "text/html": "<b>x</b>" }, metadata: {}, is_main: true, display_id: "d" };
  const error = { kind: "exception", message: "no", hint: "", raised: [] };
  const again = thawed(run(frozen([{ type: "text", lines }, { type: "display", display, key: 1 }, { type: "error", error }])));
  expect(again.map((piece) => piece.type)).toEqual(["text", "display", "error"]);
  const [text] = again;
  expect(text?.type === "text" && text.lines.all).toEqual(lines.all);
});

test("of a flood the beginning and the end are shared", () => {
  const lines = new Lines();
  lines.push("stdout", Array.from({ length: 50_000 }, (_, n) => `line ${n}\n`).join(""));
  const pieces = frozen([{ type: "text", lines }]);
  const text = pieces.map((piece) => piece.text).join("");
  expect(text).toContain("line 0\n");
  expect(text).toContain("48,400 lines are left out");
  expect(text).toContain("line 49999\n");
  expect(text.length).toBeLessThan(40_000);
});
