import { expect, test } from "vitest";
import { scaleOf } from "./Graph";

test("little is seen as well as much: the scale is the limit where it is near, else a power of two", () => {
  const MB = 2 ** 20;
  expect(scaleOf(20 * MB, 512 * MB, MB)).toBe(32 * MB);
  expect(scaleOf(300 * MB, 512 * MB, MB)).toBe(512 * MB);
  expect(scaleOf(600 * MB, 512 * MB, MB)).toBe(600 * MB);
  expect(scaleOf(0, 512 * MB, MB)).toBe(MB);
});
