/** How the next runs are made: as cells or as a program, with which input, arguments, environment and time. */

import { keep, recall } from "./kept";
import { createStore } from "./store";

export interface Inspector {
  kind: "cell" | "program";
  /** By name of the file's ending; null: what the ending says. */
  language: string | null;
  context: string | null;
  stdin: string;
  args: string;
  env: { name: string; value: string }[];
  timeout: number | null;
}

const usual: Inspector = { kind: "cell", language: null, context: null, stdin: "", args: "", env: [], timeout: null };

export const inspector = createStore<Inspector>({ ...usual, ...recall<Partial<Inspector>>("inspector", {}), language: null, context: null });
inspector.subscribe(() => keep("inspector", inspector.get()));
