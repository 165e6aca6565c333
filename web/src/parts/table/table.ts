/** Tables as data: a grid whose first columns are the labels of the rows. */

/** The content of `application/vnd.cloche.table+json`: the first rows of a table and a summary. */
export interface Table {
  columns: { name: string; type: string }[];
  /** Labels of the rows, unless they are only counted; with several levels each is a list. */
  index: { names: (string | null)[]; type: string; values: unknown[] } | null;
  shape: [number, number];
  rows: unknown[][];
  /** By this the session finds the table, as long as it keeps it. */
  id?: string;
}

/** A row of the grid: its number in the table as it was made, from 0, and its values, labels first. */
export interface Row {
  number: number;
  cells: unknown[];
}

export interface Column {
  name: string;
  type: string;
  /** Its number in requests: labels are -1, -2 …, columns 0, 1 … */
  number: number;
  isNumeric: boolean;
}

// In the words of pandas and Polars, and of SQL.
const NUMERIC = /^(u?int|float|Int|Float|UInt|Decimal|decimal)\d*|^U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$|^(BIGNUM|DECIMAL|NUMERIC|FLOAT|DOUBLE|REAL)/;
const FRACTIONAL = /^(float|Float|DECIMAL|NUMERIC|FLOAT|DOUBLE|REAL)/;

/** The columns of the grid: the labels of the rows, and then the columns of the table. */
export function columnsOf({ columns, index }: Pick<Table, "columns" | "index">): { columns: Column[]; labels: number } {
  const labels = (index?.names ?? []).map((name, level) => ({ name: name ?? "", type: index?.type ?? "", number: -level - 1, isNumeric: false }));
  const others = columns.map(({ name, type }, number) => ({ name, type, number, isNumeric: NUMERIC.test(type) }));
  return { columns: [...labels, ...others], labels: labels.length };
}

/** The rows of the grid; `numbers` are theirs, if they are not the first ones. */
export function rowsOf({ index, rows }: Pick<Table, "index" | "rows">, numbers?: number[]): Row[] {
  return rows.map((row, at) => {
    const label = index?.values[at];
    const labels = !index ? [] : index.names.length > 1 && Array.isArray(label) ? (label as unknown[]) : [label];
    return { number: numbers?.[at] ?? at, cells: [...labels, ...row] };
  });
}

// --- order and filters

export interface Filter {
  column: number;
  how: "contains" | "=" | "!=" | "<" | "<=" | ">" | ">=" | "missing" | "present";
  value: string;
}

/** Which rows are shown, and in which order. */
export interface View {
  filters: Filter[];
  search: string;
  sort: { column: number; descending: boolean } | null;
}

export const everything: View = { filters: [], search: "", sort: null };
export const isEverything = (view: View): boolean => view.filters.length === 0 && !view.search && !view.sort;

/** What somebody typed below the name of a column: "> 5", "= x", "empty", "not empty", or a part of a text. */
export function filterOf(typed: string, column: number): Filter | null {
  const text = typed.trim();
  if (!text) return null;
  if (/^(not empty|!empty)$/i.test(text)) return { column, how: "present", value: "" };
  if (/^empty$/i.test(text)) return { column, how: "missing", value: "" };
  const compared = /^(>=|<=|!=|<>|==|=|<|>)\s*(.+)$/.exec(text);
  if (!compared) return /^(>=?|<=?|!=?|<>|==?)$/.test(text) ? null : { column, how: "contains", value: text };
  const how = ({ "<>": "!=", "==": "=" } as Record<string, Filter["how"]>)[compared[1] ?? ""] ?? (compared[1] as Filter["how"]);
  return { column, how, value: compared[2] ?? "" };
}

const isMissing = (value: unknown): boolean => value === null || value === undefined;

/** Compares values: numbers as numbers, everything else as text, missing values last. */
export function compareValues(a: unknown, b: unknown): number {
  if (isMissing(a)) return isMissing(b) ? 0 : 1;
  if (isMissing(b)) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return plain(a).localeCompare(plain(b), undefined, { numeric: true });
}

function passes(value: unknown, { how, value: wanted }: Filter): boolean {
  if (how === "missing") return isMissing(value);
  if (isMissing(value)) return false;
  if (how === "present") return true;
  if (how === "contains") return plain(value).toLowerCase().includes(wanted.toLowerCase());
  const number = Number(wanted);
  const order = typeof value === "number" && !Number.isNaN(number) ? value - number : compareValues(plain(value).toLowerCase(), wanted.toLowerCase());
  return how === "=" ? order === 0 : how === "!=" ? order !== 0 : how === "<" ? order < 0 : how === "<=" ? order <= 0 : how === ">" ? order > 0 : order >= 0;
}

/** Filters and sorts rows that are all here. */
export function inView(rows: Row[], columns: Column[], view: View): Row[] {
  const at = (number: number) => columns.findIndex((column) => column.number === number);
  const search = view.search.toLowerCase();
  const found = rows.filter(
    ({ cells }) =>
      view.filters.every((filter) => passes(cells[at(filter.column)], filter)) &&
      (!search || cells.some((value) => !isMissing(value) && plain(value).toLowerCase().includes(search))),
  );
  if (!view.sort) return found;
  const { sort } = view;
  const column = at(sort.column);
  return found.sort(({ cells: a }, { cells: b }) => {
    const order = compareValues(a[column], b[column]);
    return isMissing(a[column]) || isMissing(b[column]) ? order : sort.descending ? -order : order;
  });
}

// --- values as text

/** A value with all its digits, as one copies it. */
export function plain(value: unknown): string {
  if (isMissing(value)) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

const DAY = /^(\d{4}-\d\d-\d\d)T00:00:00(\.0+)?$/;
const MOMENT = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(?::\d\d)?)(?:\.0+)?/;
const SIGNIFICANT = 6;

/** How the values of a column are shown. */
export type Format = (value: unknown) => string;

/** Formats that suit the values of each column: as many decimals as they need, but no more than six digits count. */
export function formatsOf(columns: Column[], rows: Row[]): Format[] {
  return columns.map((column, at) => {
    const values = rows.map((row) => row.cells[at]).filter((value) => !isMissing(value));
    if (/^(datetime|date|Timestamp|Date)/.test(column.type)) {
      const areDays = values.length > 0 && values.every((value) => DAY.test(plain(value)));
      return (value) => (areDays ? plain(value).replace(DAY, "$1") : plain(value).replace(MOMENT, "$1 $2"));
    }
    const numbers = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
    if (!FRACTIONAL.test(column.type) || numbers.length === 0) return plain;
    const decimals = decimalsOf(numbers);
    return (value) => (typeof value === "number" ? shortened(value, decimals) : plain(value));
  });
}

/** As many decimals as the values need, of which six digits count in the largest one. */
function decimalsOf(numbers: number[]): number {
  const largest = Math.max(...numbers.map(Math.abs));
  const before = largest < 1 ? 1 : Math.floor(Math.log10(largest)) + 1;
  const most = Math.max(2, SIGNIFICANT - before + (largest < 1 ? 1 : 0));
  return Math.max(...numbers.map((number) => (number.toFixed(most).replace(/0+$/, "").split(".")[1] ?? "").length));
}

function shortened(value: number, decimals: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 0.5 * 10 ** -Math.max(decimals, 2))) return value.toExponential(2);
  return value.toFixed(decimals);
}

const quoted = (text: string, separator: string): string =>
  text.includes(separator) || /["\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** Rows as CSV or TSV. */
export const asText = (rows: unknown[][], form: "csv" | "tsv"): string => {
  const separator = form === "csv" ? "," : "\t";
  return rows.map((row) => `${row.map((value) => quoted(plain(value), separator)).join(separator)}\n`).join("");
};

/** Rows as a table of Markdown; the first one has the names of the columns. */
export function asMarkdown(names: string[], rows: unknown[][]): string {
  const line = (cells: string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replace(/\s*\n\s*/g, " ")).join(" | ")} |`;
  return [line(names), line(names.map(() => "---")), ...rows.map((row) => line(row.map(plain)))].join("\n") + "\n";
}
