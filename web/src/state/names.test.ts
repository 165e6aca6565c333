import { expect, test } from "vitest";
import { plain, visible } from "./names";

test("characters that disguise a name are spelled out", () => {
  expect(visible("photo\u202egpj.exe")).toBe("photo⟨U+202E⟩gpj.exe");
  expect(plain("photo\u202egpj.exe")).toBe("photo_gpj.exe");
  for (const code of [0x00, 0x0a, 0x1b, 0x7f, 0x9f, 0xad, 0x61c, 0x200b, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0xd800, 0xfeff, 0xe0041]) {
    expect(visible(String.fromCodePoint(code))).toMatch(/^⟨U\+[0-9A-F]{4,6}⟩$/);
    expect(plain(String.fromCodePoint(code))).toBe("_");
  }
});

test("other names stay as they are", () => {
  for (const name of ["a.txt", "Übung 1.py", "日本語", "مرحبا", "a b", "😀"]) expect([visible(name), plain(name)]).toEqual([name, name]);
});
