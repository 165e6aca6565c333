import { ArrowDown, ArrowUp, ChevronLeft, ChevronRight, Copy } from "lucide-react";
import { useMemo, useState } from "react";
import { note } from "../../state/toasts";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { compareValues, withLabels, type Table } from "./table";

const PAGE = 15;

const shownValue = (value: unknown): string =>
  value === null || value === undefined ? "" : typeof value === "number" ? String(value) : typeof value === "object" ? JSON.stringify(value) : String(value);

const DAY = /^(\d{4}-\d\d-\d\d)T00:00:00(\.0+)?$/;

/** Columns whose times are all midnight are days. */
function daysOf({ columns, rows }: Pick<Table, "columns" | "rows">): boolean[] {
  return columns.map(
    (column, at) => /^(datetime|date|Timestamp)/.test(column.type) && rows.every((row) => row[at] === null || DAY.test(String(row[at]))),
  );
}

/** A table of a run: sorted by a click on a column, page by page. */
export function TableView({ table }: { table: Table }) {
  const [sort, setSort] = useState<{ column: number; down: boolean } | null>(null);
  const [page, setPage] = useState(0);
  const { columns, rows: all, labels } = useMemo(() => withLabels(table), [table]);
  const rows = useMemo(() => {
    if (!sort) return all;
    const sign = sort.down ? -1 : 1;
    return [...all].sort((a, b) => {
      const order = compareValues(a[sort.column], b[sort.column]);
      return a[sort.column] === null || b[sort.column] === null ? order : sign * order;
    });
  }, [all, sort]);
  const days = useMemo(() => daysOf({ columns, rows: all }), [columns, all]);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shown = rows.slice(page * PAGE, (page + 1) * PAGE);
  const [height, width] = table.shape;
  const isNumeric = (type: string) => /^(u?int|float|Int|Float|UInt|decimal)/.test(type);
  const copy = async () => {
    const lines = [columns.map((column) => column.name), ...rows.map((row) => row.map(shownValue))];
    await navigator.clipboard.writeText(lines.map((line) => line.join("\t")).join("\n"));
    note("Copied", `${rows.length} rows, ready for a spreadsheet.`);
  };
  return (
    <div className="m-2 overflow-hidden rounded-lg border border-line">
      <div className="overflow-x-auto" tabIndex={0} role="region" aria-label="Table">
        <table className="w-full border-collapse text-xs">
          <thead>
            <tr className="bg-sunken">
              {columns.map((column, index) => {
                const order = sort?.column === index ? (sort.down ? "descending" : "ascending") : "none";
                return (
                  <th key={index} aria-sort={order} scope="col" className="border-b border-line p-0 font-medium">
                    <button
                      type="button"
                      title={column.type}
                      onClick={() => {
                        setPage(0);
                        setSort(order === "none" ? { column: index, down: false } : order === "ascending" ? { column: index, down: true } : null);
                      }}
                      className={classes(
                        "flex w-full items-center gap-1 px-2.5 py-1.5 whitespace-nowrap hover:bg-hover",
                        isNumeric(column.type) && index >= labels && "flex-row-reverse",
                      )}
                    >
                      {column.name || <span className="sr-only">Label</span>}
                      {order === "ascending" && <ArrowUp size={11} />}
                      {order === "descending" && <ArrowDown size={11} />}
                    </button>
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, index) => (
              <tr key={index} className="hover:bg-sunken/60">
                {columns.map((column, at) => {
                  const value = row[at];
                  return (
                    <td
                      key={at}
                      className={classes(
                        "max-w-80 truncate border-t border-line/60 px-2.5 py-1 whitespace-nowrap",
                        isNumeric(column.type) && at >= labels ? "text-right tabular-nums" : "text-left",
                        at < labels && "font-medium text-ink-soft",
                      )}
                      title={shownValue(value)}
                    >
                      {value === null || value === undefined ? (
                        <span className="text-ink-faint">–</span>
                      ) : days[at] ? (
                        String(value).slice(0, 10)
                      ) : (
                        shownValue(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/, "$1 $2")
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div className="flex items-center justify-between border-t border-line bg-sunken px-2 py-0.5 text-2xs text-ink-faint">
        <span>
          {height.toLocaleString("en")} rows × {width} columns
          {height > rows.length && `, the first ${rows.length} here`}
        </span>
        <span className="flex items-center gap-1">
          <IconButton label="Copy the table" size="small" onClick={() => void copy()}>
            <Copy size={12} />
          </IconButton>
          {pages > 1 && (
            <>
              <IconButton label="Previous rows" size="small" disabled={page === 0} onClick={() => setPage(page - 1)}>
                <ChevronLeft size={14} />
              </IconButton>
              <span className="tabular-nums" role="status">
                {page + 1} / {pages}
              </span>
              <IconButton label="Next rows" size="small" disabled={page + 1 >= pages} onClick={() => setPage(page + 1)}>
                <ChevronRight size={14} />
              </IconButton>
            </>
          )}
        </span>
      </div>
    </div>
  );
}
