/** Tables as data. */

/** The content of `application/vnd.cloche.table+json`: the first rows of a table and a summary. */
export interface Table {
  columns: { name: string; type: string }[];
  /** Labels of the rows, unless they are only counted; with several levels each is a list. */
  index: { names: (string | null)[]; type: string; values: unknown[] } | null;
  shape: [number, number];
  rows: unknown[][];
}

/** Compares values: numbers as numbers, everything else as text, missing values last. */
export function compareValues(a: unknown, b: unknown): number {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** The table with the labels of its rows as first columns, and how many of those there are. */
export function withLabels(table: Table): { columns: Table["columns"]; rows: unknown[][]; labels: number } {
  const { index } = table;
  if (!index) return { columns: table.columns, rows: table.rows, labels: 0 };
  const labels = index.names.length;
  const columns = index.names.map((name) => ({ name: name ?? "", type: index.type }));
  const rows = table.rows.map((row, at) => {
    const label = index.values[at];
    return [...(labels > 1 && Array.isArray(label) ? (label as unknown[]) : [label]), ...row];
  });
  return { columns: [...columns, ...table.columns], rows, labels };
}
