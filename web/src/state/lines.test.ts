import { describe, expect, it } from "vitest";
import { Lines, MAX_LINES } from "./lines";

const shown = (lines: Lines) => lines.all.map(({ text }) => text);

describe("lines", () => {
  it("are the same wherever the output is cut", () => {
    const text = "one\ntwo\n\nthree without end";
    for (let cut = 0; cut <= text.length; cut++) {
      const lines = new Lines();
      lines.push("stdout", text.slice(0, cut));
      lines.push("stdout", text.slice(cut));
      expect(shown(lines)).toEqual(["one", "two", "", "three without end"]);
    }
  });

  it("are overwritten by what comes after a carriage return, as in a terminal", () => {
    const lines = new Lines();
    for (const percent of [1, 50, 100]) lines.push("stderr", `\r${percent} %`);
    lines.push("stderr", "\ndone\r\nnext\n");
    expect(shown(lines)).toEqual(["100 %", "done", "next"]);
    const short = new Lines();
    short.push("stdout", "abcdef\rXY");
    expect(shown(short)).toEqual(["XYcdef"]);
  });

  it("keep the streams apart, in the order in which they came", () => {
    const lines = new Lines();
    lines.push("stdout", "out ");
    lines.push("stderr", "err\n");
    lines.push("stdout", "more\n");
    expect(lines.all.map(({ stream, text }) => [stream, text])).toEqual([
      ["stdout", "out "],
      ["stderr", "err"],
      ["stdout", "more"],
    ]);
  });

  it("are parted where something else is shown instead of some of them", () => {
    const lines = new Lines();
    lines.push("stdout", "created\na\n-\n1\n\nb\n-\n2\n");
    const [before, after] = lines.without(["a", "-", "1"]) ?? [];
    expect([before && shown(before), after && shown(after)]).toEqual([["created"], ["", "b", "-", "2"]]);
    expect(lines.without(["a", "-", "2"])).toBeNull();
    expect(lines.without([])).toBeNull();
    lines.push("stderr", "c\n");
    expect(lines.without(["c"])).toBeNull();
  });

  it("carry colours over to the next line, until they are reset", () => {
    const lines = new Lines();
    lines.push("stdout", "\x1b[31mred\nstill\x1b[0m\nplain\n");
    expect(lines.all.map(({ style }) => style)).toEqual(["", "\x1b[31m", ""]);
  });

  it("drop the oldest of a flood, and say how many", () => {
    const lines = new Lines();
    for (let piece = 0; piece < 300; piece++) lines.push("stdout", "x\n".repeat(1000));
    expect(lines.all.length).toBeLessThanOrEqual(MAX_LINES);
    expect(lines.all.length + lines.dropped).toBe(300_000);
  });

  it("fold a line that never ends", () => {
    const lines = new Lines();
    lines.push("stdout", "x".repeat(50_000));
    lines.push("stdout", "y\n");
    expect(shown(lines).join("")).toBe("x".repeat(50_000) + "y");
    expect(Math.max(...shown(lines).map((text) => text.length))).toBeLessThanOrEqual(20_000);
  });
});
