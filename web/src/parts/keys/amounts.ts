/** Amounts as the page of keys shows them. */

import { bytes, seconds } from "../../state/format";

export type Unit = "count" | "seconds" | "bytes";

export function amount(value: number, unit: Unit): string {
  if (unit === "bytes") return bytes(Math.round(value));
  if (unit === "seconds") return value === 0 ? "0 s" : seconds(value).replace(/ 0 (s|min)$/, "");
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}
