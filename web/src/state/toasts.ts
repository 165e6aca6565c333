/** Short messages for the person at the page. */

import { explain } from "../api/http";
import { createStore } from "./store";

export interface Toast {
  id: number;
  kind: "note" | "problem";
  message: string;
  hint: string;
}

export const toasts = createStore<{ shown: Toast[] }>({ shown: [] });
let last = 0;

function show(kind: Toast["kind"], message: string, hint: string, ms: number): void {
  const id = ++last;
  toasts.set(({ shown }) => ({ shown: [...shown.slice(-3), { id, kind, message, hint }] }));
  setTimeout(() => dismiss(id), ms);
}

export const note = (message: string, hint = ""): void => show("note", message, hint, 4000);

export function complain(problem: unknown): void {
  const { message, hint } = explain(problem);
  show("problem", message, hint, 9000);
}

export const dismiss = (id: number): void =>
  toasts.set(({ shown }) => ({ shown: shown.filter((toast) => toast.id !== id) }));

/** Runs work that may fail, and shows the error. */
export function attempt(work: () => Promise<unknown>): void {
  void work().catch(complain);
}
