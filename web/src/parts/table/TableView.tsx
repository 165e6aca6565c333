import { Copy, Download, ListFilter, Search, X } from "lucide-react";
import { useEffect, useMemo, useReducer, useRef, useState, type ReactNode } from "react";
import { attempt, note } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Menu } from "../../ui/Menu";
import { Spinner } from "../../ui/states";
import { Grid, type Selection } from "./Grid";
import { Rows, type Piece } from "./Rows";
import type { Source } from "./source";
import { asMarkdown, columnsOf, filterOf, formatsOf, plain, rowsOf, type Filter, type Table } from "./table";

const TYPING_MS = 250;
const MOST_COPIED = 200_000;
const MOST_MARKDOWN = 1_000;

interface Props {
  table: Table;
  /** Where further rows come from; without it, there are only those of the table. */
  source: Source | null;
  /** Of the file that is exported. */
  name: string;
  /** Whether it takes all the room in a column; otherwise it is as high as its rows, up to a few of them. */
  fills?: boolean;
  firstNumber?: number;
  /** Something about the whole table: its sheets, or what is left out. */
  about?: ReactNode;
}

/** A table: sorted by a click on a name, filtered, scrolled to its end, copied and exported. */
export function TableView({ table, source, name, fills = false, firstNumber = 0, about }: Props) {
  const { columns, labels } = useMemo(() => columnsOf(table), [table]);
  const rows = useMemo(() => new Rows(table, columns, labels, source), [table, columns, labels, source]);
  const [, again] = useReducer((count: number) => count + 1, 0);
  const [typed, setTyped] = useState<Record<number, string> | null>(null);
  const [search, setSearch] = useState("");
  const [selection, setSelection] = useState<Selection | null>(null);
  const [exporting, setExporting] = useState<{ done: number; stop: AbortController } | null>(null);
  const searchField = useRef<HTMLInputElement>(null);
  const { formats, widths } = useMemo(() => {
    const first = rowsOf(table);
    const found = formatsOf(columns, first);
    const width = (at: number, of: string) =>
      // Rows further down may be a little wider than the first ones.
      Math.max(of.length * 7 + 38, ...first.map((row) => Math.min(44, (found[at] ?? plain)(row.cells[at]).length + 2) * 7 + 28));
    return { formats: found, widths: columns.map((column, at) => Math.max(64, Math.min(320, width(at, column.name)))) };
  }, [table, columns]);

  useEffect(() => {
    const off = rows.changed.on(again);
    return () => {
      off();
      rows.stop();
    };
  }, [rows]);

  const filters = JSON.stringify(columns.map(({ number }) => filterOf(typed?.[number] ?? "", number)).filter(Boolean));
  useEffect(() => {
    const view = { ...rows.view, filters: JSON.parse(filters) as Filter[], search: search.trim() };
    if (JSON.stringify(view) === JSON.stringify(rows.view)) return;
    const timer = setTimeout(() => {
      setSelection(null);
      rows.show(view);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [rows, filters, search]);

  const sort = (column: number) => {
    const before = rows.view.sort;
    const next = before?.column !== column ? { column, descending: false } : before.descending ? null : { column, descending: true };
    setSelection(null);
    rows.show({ ...rows.view, sort: next });
  };

  const toggleFilters = () => {
    if (typed) {
      setTyped(null);
      setSearch("");
    } else {
      setTyped({});
      requestAnimationFrame(() => searchField.current?.focus());
    }
  };

  const whole = (): Piece => ({ from: 0, to: rows.matched, columns: null, names: true });
  const selected = (): Piece => {
    if (!selection) return whole();
    const { anchor, cell } = selection;
    const first = Math.min(anchor.column, cell.column);
    // Labels belong together: with one of them, all are copied.
    return {
      from: Math.min(anchor.row, cell.row),
      to: Math.max(anchor.row, cell.row) + 1,
      columns: [first < labels ? 0 : first, Math.max(anchor.column, cell.column, first < labels ? labels - 1 : 0) + 1],
      names: false,
    };
  };

  /** Gathers a text piece by piece, with the progress below the table. */
  const gather = async (form: "csv" | "tsv", piece: Piece): Promise<{ parts: string[]; count: number } | null> => {
    const stop = new AbortController();
    const parts: string[] = [];
    let done = 0;
    setExporting({ done, stop });
    try {
      for await (const { text, rows: count } of rows.text(form, piece, stop.signal)) {
        parts.push(text);
        done += count;
        setExporting({ done, stop });
      }
      return { parts, count: done };
    } catch (problem) {
      if (stop.signal.aborted) return null;
      throw problem;
    } finally {
      setExporting(null);
    }
  };

  const copy = (piece: Piece) =>
    attempt(async () => {
      const found = await gather("tsv", { ...piece, to: Math.min(piece.to, piece.from + MOST_COPIED) });
      if (!found) return;
      await navigator.clipboard.writeText(found.parts.join(""));
      const left = piece.to - piece.from - found.count;
      note("Copied", `${counted(found.count, "row")}, ready for a spreadsheet.${left > 0 ? " Export the table for all of it." : ""}`);
    });

  const copyMarkdown = (piece: Piece) =>
    attempt(async () => {
      const [first, last] = piece.columns ?? [0, columns.length];
      const known = [];
      for (let at = piece.from; at < Math.min(piece.to, piece.from + MOST_MARKDOWN); at++) {
        const row = rows.get(at);
        if (!row) break;
        known.push(row.cells.slice(first, last));
      }
      await navigator.clipboard.writeText(asMarkdown(columns.slice(first, last).map((column) => column.name), known));
      note("Copied", `${counted(known.length, "row")} as Markdown.`);
    });

  const download = () =>
    attempt(async () => {
      const found = await gather("csv", whole());
      if (!found) return;
      const address = URL.createObjectURL(new Blob(found.parts, { type: "text/csv" }));
      const link = document.createElement("a");
      link.href = address;
      link.download = `${name}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
      note("Exported", `${counted(found.count, "row")} as ${name}.csv.`);
    });

  const isCut = source === null && table.rows.length < table.shape[0];
  const active = selection && rows.get(selection.cell.row)?.cells[selection.cell.column];
  return (
    <div className={classes("flex min-w-0 flex-col overflow-hidden", fills ? "h-full" : "m-2 rounded-lg border border-line")}>
      {typed && (
        <div className="flex shrink-0 items-center gap-1.5 border-b border-line bg-sunken px-2 py-1">
          <Search size={13} className="shrink-0 text-ink-faint" aria-hidden="true" />
          <input
            ref={searchField}
            type="search"
            aria-label="Search all columns"
            placeholder="Search all columns"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
            onKeyDown={(event) => event.key === "Escape" && toggleFilters()}
            spellCheck={false}
            autoComplete="off"
            className="h-6 min-w-0 flex-1 bg-transparent text-xs outline-none placeholder:text-ink-faint [&::-webkit-search-cancel-button]:hidden"
          />
          <IconButton label="Remove all filters" size="small" onClick={toggleFilters}>
            <X size={13} />
          </IconButton>
        </div>
      )}
      <Grid
        label={fills ? `Table ${name}` : "Table"}
        rows={rows}
        widths={widths}
        formats={formats}
        typed={typed}
        selection={selection}
        firstNumber={firstNumber}
        fills={fills}
        onType={(column, text) => setTyped({ ...typed, [column]: text })}
        onSort={sort}
        onSelect={setSelection}
        onCopy={() => copy(selected())}
      />
      {rows.problem && <Trouble rows={rows} />}
      {about}
      {isCut && (
        <p className="shrink-0 border-t border-line bg-sunken px-2.5 py-1 text-2xs text-ink-soft">
          Sorting and searching cover only the rows that came with the result. If the code writes a CSV or Parquet file, opening that shows all rows.
        </p>
      )}
      <div className="flex shrink-0 items-center gap-2 border-t border-line bg-sunken py-0.5 pr-1 pl-2.5 text-2xs text-ink-soft">
        {rows.isStale && !rows.problem && <Spinner size={11} />}
        <span role="status" className="min-w-0 flex-1 truncate">
          {exporting ? `${exporting.done.toLocaleString("en")} of ${rows.matched.toLocaleString("en")} rows …` : described(rows, isCut)}
          {selection && active !== undefined && active !== null && <span className="text-ink-faint"> · {plain(active)}</span>}
        </span>
        {exporting ? (
          <Button size="small" look="quiet" onClick={() => exporting.stop.abort()}>
            Stop
          </Button>
        ) : (
          <>
            <IconButton label="Search and filter" size="small" pressed={typed !== null} onClick={toggleFilters}>
              <ListFilter size={13} />
            </IconButton>
            <Menu
              align="end"
              trigger={
                <IconButton label="Copy" size="small">
                  <Copy size={13} />
                </IconButton>
              }
              entries={[
                ...(selection ? [{ label: "Copy the selection", keys: "mod+c", onSelect: () => copy(selected()) }] : []),
                { label: "Copy all rows", onSelect: () => copy(whole()) },
                { label: selection ? "Copy the selection as Markdown" : "Copy as Markdown", onSelect: () => copyMarkdown(selected()) },
              ]}
            />
            <IconButton label={`Export ${counted(rows.matched, "row")} as CSV`} size="small" onClick={download}>
              <Download size={13} />
            </IconButton>
          </>
        )}
      </div>
    </div>
  );
}

/** Why rows are missing, and what to do about it. */
function Trouble({ rows }: { rows: Rows }) {
  const { problem, table } = rows;
  if (!problem) return null;
  const first = table.rows.length < table.shape[0] ? ` Only the first ${counted(table.rows.length, "row")} are here.` : "";
  return (
    <p role="alert" className="flex shrink-0 items-center gap-2 border-t border-line bg-warn-soft px-2.5 py-1 text-xs text-warn">
      <span className="flex-1">
        {problem.message}
        {problem.isFinal && first} {problem.hint}
      </span>
      {!problem.isFinal && (
        <Button size="small" onClick={() => rows.retry()}>
          Try again
        </Button>
      )}
    </p>
  );
}

const counted = (count: number, what: string): string => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** How much there is, and how much of it is here. */
function described(rows: Rows, isCut: boolean): string {
  const { table, matched, view } = rows;
  const [height, width] = table.shape;
  const isFiltered = view.filters.length > 0 || view.search !== "";
  const size = `${counted(height, "row")} × ${counted(width, "column")}`;
  const first = `the first ${table.rows.length.toLocaleString("en")}`;
  const here = isCut ? `, of which ${first} came with the result` : "";
  const cut = table.columns.length < width ? `, the first ${table.columns.length} columns here` : "";
  return isFiltered ? `${matched.toLocaleString("en")} of ${isCut ? `${first} rows` : size}` : `${size}${here}${cut}`;
}
