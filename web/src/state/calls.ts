/** Where the calls of a traceback are: in which file that the person can open, and in which line of it. */

import type { StackFrameAnswer } from "../api/schema";
import { isNotebook } from "./notebooks";
import { runs, type Run } from "./runs";
import { join, parentOf } from "./tree";

export interface Position {
  path: string;
  line: number;
  column: number;
  /** The run of the cell, if the line is one of a cell in a notebook and not of the file. */
  cell?: Run;
}

type Called = Pick<StackFrameAnswer, "line" | "column" | "cell"> & { file: string | null };

/** The position of a call in a run; null for code that came from no file, or from a cell that is not known any more. */
export function positionOf(run: Run, { file, line, column, cell }: Called): Position | null {
  const at = { line, column: Math.max(1, column) };
  if (file) {
    const { path } = run.asked;
    return file.startsWith("/") ? { path: file, ...at } : path === null ? null : { path: join(parentOf(path), file), ...at };
  }
  const origin = cellOf(run, cell);
  if (!origin?.asked.path) return null;
  const { path, line: first } = origin.asked;
  return isNotebook(path) ? { path, ...at, cell: origin } : { path, line: line + first, column: at.column };
}

/** The run of the cell with this number: this one, or the last before it in the same context. */
function cellOf(run: Run, cell: number | null): Run | undefined {
  if (cell === null || run.result === null || run.result.execution_count === cell) return run;
  const all = runs.get().all;
  const before = all.slice(0, all.indexOf(run));
  return before.findLast((one) => one.result?.execution_count === cell && one.result.context === run.result?.context);
}
