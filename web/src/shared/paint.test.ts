import { expect, test } from "vitest";
import { paint } from "./paint";

test("nothing of the text is lost, and its parts are told apart", () => {
  const code = "def f(x):  # it's fine\n    return 'a # b' + str(42)\n";
  const spans = paint("main.py", code);
  expect(spans.map((span) => span.text).join("")).toBe(code);
  const of = (kind: string) => spans.filter((span) => span.kind === kind).map((span) => span.text);
  expect(of("comment")).toEqual(["# it's fine"]);
  expect(of("string")).toEqual(["'a # b'"]);
  expect(of("number")).toEqual(["42"]);
  expect(of("keyword")).toEqual(["def", "return"]);
  expect(paint("main.ts", "const a = 1; // b").at(-1)).toEqual({ kind: "comment", text: "// b" });
});
