/** The code around a model's own: a notebook's cell is checked and completed together with the other cells. */

import type { Monaco } from "../monaco";

interface Surroundings {
  before: string;
  after: string;
}

const known = new WeakMap<Monaco.editor.ITextModel, () => Surroundings>();

export function surround(model: Monaco.editor.ITextModel, of: () => Surroundings): void {
  known.set(model, of);
}

/** The model's text within its surroundings, and the number of lines before it. */
export function whole(model: Monaco.editor.ITextModel): { text: string; before: number } {
  const { before, after } = known.get(model)?.() ?? { before: "", after: "" };
  return { text: before + model.getValue() + after, before: before.split("\n").length - 1 };
}
