/** The keys of a notebook while no cell is being edited, as in Jupyter. */

import type { KeyboardEvent } from "react";
import type { Cell } from "../../state/notebook/format";
import { add, bringBack, choose, interrupt, move, openNotebook, paste, remove, step, turnInto } from "../../state/notebooks";

/** In these, keys have their own meaning. */
const OWN_KEYS = "input, textarea, select, button, a, audio, .monaco-editor, [role=log], [role=dialog]";
const TWICE_MS = 800;
let copied: Cell | null = null;
let last = { key: "", time: 0 };

/** Handles a key that was pressed on a cell. */
export function press(event: KeyboardEvent, path: string): void {
  if (!(event.target instanceof Element) || !event.target.closest("[data-cell]") || event.target.closest(OWN_KEYS)) return;
  const act = actionOf(event, path);
  if (!act) return;
  event.preventDefault();
  act();
}

function actionOf({ key, ctrlKey, metaKey, altKey, shiftKey, timeStamp: time }: KeyboardEvent, path: string): (() => void) | undefined {
  const open = openNotebook(path);
  const index = open?.notebook.cells.findIndex((cell) => cell.key === open.active) ?? -1;
  const cell = open?.notebook.cells[index];
  if (!cell) return undefined;
  if (ctrlKey || metaKey) {
    const moves: Record<string, number> = { ArrowUp: -1, ArrowDown: 1 };
    const by = shiftKey && !altKey ? moves[key] : undefined;
    return by === undefined ? undefined : () => move(path, cell.key, by);
  }
  if (altKey || shiftKey) return undefined;
  const isTwice = last.key === key && time - last.time < TWICE_MS;
  last = isTwice ? { key: "", time } : { key, time };
  const twice = (work: () => void) => (isTwice ? work : () => undefined);
  const keys: Record<string, () => void> = {
    Enter: () => choose(path, cell.key, true),
    ArrowUp: () => step(path, -1),
    k: () => step(path, -1),
    ArrowDown: () => step(path, 1),
    j: () => step(path, 1),
    a: () => add(path, index),
    b: () => add(path, index + 1),
    d: twice(() => remove(path, cell.key)),
    z: () => bringBack(path),
    m: () => turnInto(path, cell.key, "markdown"),
    y: () => turnInto(path, cell.key, "code"),
    r: () => turnInto(path, cell.key, "raw"),
    c: () => void (copied = cell),
    x: () => {
      copied = cell;
      remove(path, cell.key);
    },
    v: () => copied && paste(path, cell.key, copied),
    i: twice(() => interrupt(path)),
  };
  return keys[key];
}
