/** Options of the next runs: cell or program, input, arguments, environment, time limit. */

import { keep, recall } from "./kept";
import { createStore } from "./store";

export interface Inspector {
  kind: "cell" | "program";
  /** The chosen language; null: from the file extension. */
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
