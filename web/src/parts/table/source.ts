/** Where the rows of a table come from: the session that displayed it, or a file. */

import * as api from "../../api/beyond";
import type { RowsAnswer, RowsBody } from "../../api/schema";
import { theSandbox } from "../../state/sandbox";

export type Source = (wanted: RowsBody, signal: AbortSignal) => Promise<RowsAnswer>;

/** A table that a session displayed. */
export const displayed =
  (table: string, context: string): Source =>
  (wanted, signal) =>
    api.tableRows(theSandbox(), { ...wanted, table, context }, signal);

/** A table in a file; with several sheets, one of them. */
export const inFile =
  (path: string, sheet: string | null): Source =>
  (wanted, signal) =>
    api.tableRows(theSandbox(), { ...wanted, path, sheet }, signal);
