import { describe, expect, it } from "vitest";
import { spans, withoutColours } from "./ansi";
import { places } from "./links";

describe("colours", () => {
  it("become styles, and other sequences nothing", () => {
    expect(spans("\x1b[1;31mbold\x1b[0m plain\x1b[2K\x1b]0;title\x07")).toEqual([
      { text: "bold", classes: "ansi-bold", color: "var(--ansi-red)" },
      { text: " plain", classes: "" },
    ]);
    expect(spans("\x1b[38;2;10;20;30mx\x1b[48;5;232my")).toEqual([
      { text: "x", classes: "", color: "color-mix(in oklab, #0a141e 50%, var(--ink))" },
      { text: "y", classes: "", color: "#0a141e", background: "#080808" },
    ]);
    expect(withoutColours("\x1b[32mgreen\x1b[0m")).toBe("green");
  });

  it("begin with what the lines before have left on", () => {
    expect(spans("still", "\x1b[4m")).toEqual([{ text: "still", classes: "ansi-underline" }]);
  });
});

describe("places", () => {
  it("are found in tracebacks of every kind", () => {
    const found = (text: string, ours: number | null = null) => places(text, ours).map(({ path, line, column }) => [path, line, column]);
    expect(found('  File "/sandbox/code/main.py", line 12, in f')).toEqual([["/sandbox/code/main.py", 12, 1]]);
    expect(found("File ~/code/mod.py:2, in g()")).toEqual([["/sandbox/code/mod.py", 2, 1]]);
    expect(found("    at f (/sandbox/code/main.js:3:15)")).toEqual([["/sandbox/code/main.js", 3, 15]]);
    expect(found("Cell In[3], line 5", 3)).toEqual([[null, 5, 1]]);
    expect(found("Cell In[2], line 5", 3)).toEqual([]);
    expect(found("/tmp/.bash-16/cell-1: line 4: foo: command not found")).toEqual([[null, 4, 1]]);
    expect(found("hello.c:4:20: error: 'y' undeclared")).toEqual([["hello.c", 4, 20]]);
    expect(found("'y' undeclared (hello.c, line 4)")).toEqual([["hello.c", 4, 1]]);
    expect(found("nothing at /etc/passwd:3 or 12:30")).toEqual([]);
  });
});
