/** The cursor in the open file; the editor writes it, runs read it. */

import { createStore, Signal } from "./store";

export interface Cursor {
  /** From 1. */
  line: number;
  column: number;
  /** What is selected; empty for nothing. */
  selection: string;
  /** The line (from 1) where the selection begins. */
  from: number;
  problems: { errors: number; warnings: number };
}

export const cursor = createStore<Cursor>({ line: 1, column: 1, selection: "", from: 1, problems: { errors: 0, warnings: 0 } });

/** Text to type at the cursor. */
export const typing = new Signal<string>();
