import { describe, expect, it } from "vitest";
import { rank } from "../shell/rank";
import { cellsOf } from "./cells";
import { bytes, seconds } from "./format";
import { dedented, words } from "./words";

describe("cells", () => {
  it("lie between marks; a file without any is one", () => {
    expect(cellsOf("x = 1\n").map(({ start, title }) => [start, title])).toEqual([[0, ""]]);
    const marked = "import os\n# %% load\na = 1\n\n# %%\nb = 2\n";
    expect(cellsOf(marked).map(({ start, end, title, code }) => [start, end, title, code])).toEqual([
      [0, 1, "", "import os"],
      [1, 4, "load", "# %% load\na = 1\n"],
      [4, 7, "", "# %%\nb = 2\n"],
    ]);
    expect(cellsOf("// %% one\nlet a\n// %% two\nlet b").map(({ title }) => title)).toEqual(["one", "two"]);
    expect(cellsOf("\n# %% only\n1\n").length).toBe(1);
  });
});

describe("words", () => {
  it("are those of a shell", () => {
    expect(words(`one 'two words' "a \\"b\\"" c\\ d --x="y z"`)).toEqual(["one", "two words", 'a "b"', "c d", "--x=y z"]);
    expect(words("  ")).toEqual([]);
  });

  it("lose the indentation that all lines have", () => {
    expect(dedented("    if x:\n        y\n\n    z")).toBe("if x:\n    y\n\nz");
  });
});

describe("the palette", () => {
  it("prefers beginnings of words, and finds by initials", () => {
    expect(rank("Run the whole file", "whole")).toBeGreaterThan(rank("Open thewholestory.py", "whole"));
    expect(rank("Switch between light and dark", "sld")).toBeGreaterThan(0);
    expect(rank("Save now", "xyz")).toBe(0);
  });
});

describe("figures", () => {
  it("are short", () => {
    expect([0.0004, 0.25, 1.234, 75, 3700].map(seconds)).toEqual(["<1 ms", "250 ms", "1.23 s", "1 min 15 s", "1 h 1 min"]);
    expect([12, 2048, 512 << 20].map(bytes)).toEqual(["12 B", "2.0 kB", "512 MB"]);
  });
});
