import type { KeyboardEvent } from "react";

/** Lets arrow keys move through a list, over the elements with the attribute `data-walk`. */
export function walk(event: KeyboardEvent<HTMLElement>): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const target = event.target;
  if (!step || !(target instanceof HTMLElement) || target.closest("[role=menu]")) return;
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-walk]")];
  const at = all.findIndex((one) => one.contains(target));
  const next = all[at + step];
  if (at < 0 || !next) return;
  event.preventDefault();
  next.focus();
}
