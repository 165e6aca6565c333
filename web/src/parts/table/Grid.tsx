import { ArrowDown, ArrowUp } from "lucide-react";
import { useEffect, useId, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { classes } from "../../ui/classes";
import type { Rows } from "./Rows";
import { plain, type Format } from "./table";

const ROW = 28;
const SPARE = 10; // rows above and below those in sight
const TALLEST = 12_000_000; // pixels; browsers have no taller elements
const MOST_ROWS = 12; // in sight, where the grid is as high as its rows

export interface Cell {
  row: number;
  column: number;
}

export interface Selection {
  /** Where it began, and the active cell, which moves. */
  anchor: Cell;
  cell: Cell;
}

interface Props {
  label: string;
  rows: Rows;
  widths: number[];
  formats: Format[];
  /** What was typed below the names of the columns; null if there is no row for it. */
  typed: Record<number, string> | null;
  selection: Selection | null;
  firstNumber: number;
  fills: boolean;
  onType: (column: number, text: string) => void;
  onSort: (column: number) => void;
  onSelect: (selection: Selection | null) => void;
  onCopy: () => void;
}

/** Which of the rows are in sight. Of very many rows, the scroll bar moves by more than one row a pixel. */
function useSight(count: number) {
  const area = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: MOST_ROWS * ROW });
  useEffect(() => {
    const element = area.current;
    if (!element) return;
    const look = () => setSight({ top: element.scrollTop, height: element.clientHeight });
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  const all = count * ROW;
  const tall = Math.min(all, TALLEST);
  const stretch = all > tall ? (all - sight.height) / Math.max(1, tall - sight.height) : 1;
  const top = sight.top * stretch;
  const from = Math.max(0, Math.floor(top / ROW) - SPARE);
  const to = Math.min(count, Math.ceil((top + sight.height) / ROW) + SPARE);
  const place = (row: number) => row * ROW - top + sight.top;
  const reveal = (row: number, covered: number) => {
    const element = area.current;
    if (!element) return;
    const room = element.clientHeight - covered;
    if (row * ROW < top) element.scrollTop = (row * ROW) / stretch;
    else if ((row + 1) * ROW > top + room) element.scrollTop = ((row + 1) * ROW - room) / stretch;
  };
  return { area, from, to, tall, place, reveal, page: Math.max(1, Math.floor(sight.height / ROW) - 2) };
}

/** A table of any length: only the rows in sight are in the page. Labels stay on the left, names on top. */
export function Grid({ label, rows, widths, formats, typed, selection, firstNumber, fills, onType, onSort, onSelect, onCopy }: Props) {
  const id = useId();
  const { area, from, to, tall, place, reveal, page } = useSight(rows.matched);
  const head = useRef<HTMLDivElement>(null);
  const { columns, labels, view } = rows;
  useEffect(() => rows.want(from, to), [rows, from, to, rows.version]);

  const hasNumbers = labels === 0;
  const gutter = hasNumbers ? Math.max(40, String(rows.table.shape[0]).length * 7 + 20) : 0;
  const template = [...(hasNumbers ? [gutter] : []), ...widths].map((width) => `${width}px`).join(" ");
  const total = gutter + widths.reduce((sum, width) => sum + width, 0);
  const lefts = widths.map((_, column) => gutter + widths.slice(0, column).reduce((sum, width) => sum + width, 0));

  const move = (cell: Cell, extend: boolean) => {
    const there = { row: Math.max(0, Math.min(rows.matched - 1, cell.row)), column: Math.max(0, Math.min(columns.length - 1, cell.column)) };
    onSelect({ anchor: extend && selection ? selection.anchor : there, cell: there });
    reveal(there.row, head.current?.offsetHeight ?? 0);
    const element = area.current;
    const left = lefts[there.column] ?? 0;
    const pinned = labels > 0 ? (lefts[labels] ?? 0) : gutter;
    if (element && there.column >= labels) {
      if (left - pinned < element.scrollLeft) element.scrollLeft = left - pinned;
      else if (left + (widths[there.column] ?? 0) > element.scrollLeft + element.clientWidth) element.scrollLeft = left + (widths[there.column] ?? 0) - element.clientWidth;
    }
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.target !== area.current || rows.matched === 0) return;
    const { row, column } = selection?.cell ?? { row: 0, column: 0 };
    const isFar = event.ctrlKey || event.metaKey;
    const handled: Record<string, () => void> = {
      ArrowDown: () => move({ row: isFar ? rows.matched - 1 : row + 1, column }, event.shiftKey),
      ArrowUp: () => move({ row: isFar ? 0 : row - 1, column }, event.shiftKey),
      ArrowRight: () => move({ row, column: isFar ? columns.length - 1 : column + 1 }, event.shiftKey),
      ArrowLeft: () => move({ row, column: isFar ? 0 : column - 1 }, event.shiftKey),
      PageDown: () => move({ row: row + page, column }, event.shiftKey),
      PageUp: () => move({ row: row - page, column }, event.shiftKey),
      Home: () => move({ row: isFar ? 0 : row, column: 0 }, event.shiftKey),
      End: () => move({ row: isFar ? rows.matched - 1 : row, column: columns.length - 1 }, event.shiftKey),
      ...(selection ? { Escape: () => onSelect(null) } : {}),
      ...(isFar ? { a: () => onSelect({ anchor: { row: 0, column: 0 }, cell: { row: rows.matched - 1, column: columns.length - 1 } }), c: onCopy } : {}),
    };
    const act = handled[event.key];
    if (!act || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  const cellAt = (event: PointerEvent): Cell | null => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-row]");
    return found ? { row: Number(found.dataset.row), column: Number(found.dataset.column) } : null;
  };
  const onPress = (event: PointerEvent) => {
    const cell = cellAt(event);
    if (cell && event.button === 0) onSelect({ anchor: event.shiftKey && selection ? selection.anchor : cell, cell });
  };
  const onDrag = (event: PointerEvent) => {
    const cell = event.pointerType === "mouse" && event.buttons === 1 && selection ? cellAt(event) : null;
    if (cell && selection && (cell.row !== selection.cell.row || cell.column !== selection.cell.column)) onSelect({ ...selection, cell });
  };
  const isSelected = (row: number, column: number): boolean => {
    if (!selection) return false;
    const { anchor, cell } = selection;
    return (
      row >= Math.min(anchor.row, cell.row) && row <= Math.max(anchor.row, cell.row) &&
      column >= Math.min(anchor.column, cell.column) && column <= Math.max(anchor.column, cell.column)
    );
  };
  const isActiveHere = selection !== null && selection.cell.row >= from && selection.cell.row < to;

  return (
    <div
      ref={area}
      role="grid"
      aria-label={label}
      aria-rowcount={rows.matched + 1}
      aria-colcount={columns.length}
      aria-multiselectable="true"
      aria-busy={rows.isStale}
      {...(isActiveHere ? { "aria-activedescendant": `${id}${selection.cell.row}-${selection.cell.column}` } : {})}
      tabIndex={0}
      onKeyDown={onKey}
      onPointerDown={onPress}
      onPointerMove={onDrag}
      onFocus={(event) => event.target === area.current && !selection && rows.matched > 0 && event.target.matches(":focus-visible") && move({ row: 0, column: 0 }, false)}
      style={fills ? {} : { maxHeight: (MOST_ROWS + 1) * ROW + (typed ? 34 : 0) + 12 }}
      className={classes("relative overflow-auto bg-surface text-xs outline-offset-[-2px]", fills && "min-h-0 flex-1")}
    >
      <div ref={head} role="rowgroup" style={{ width: total }} className="sticky top-0 min-w-full z-20 border-b border-line-strong/60 bg-sunken">
        <div role="row" aria-rowindex={1} className="grid" style={{ gridTemplateColumns: template }}>
          {hasNumbers && <span role="presentation" className="sticky left-0 z-10 bg-sunken" />}
          {columns.map((column, at) => {
            const order = view.sort?.column !== column.number ? "none" : view.sort.descending ? "descending" : "ascending";
            return (
              <div
                key={column.number}
                role="columnheader"
                aria-colindex={at + 1}
                aria-sort={order}
                style={at < labels ? { left: lefts[at] } : {}}
                className={classes("min-w-0 bg-sunken", at < labels && "sticky z-10", at === labels - 1 && "border-r border-line-strong/60")}
              >
                <button
                  type="button"
                  title={`${column.name || "Row label"} (${column.type}): sort`}
                  onClick={() => onSort(column.number)}
                  className={classes(
                    "flex h-7 w-full items-center gap-1 px-2.5 font-medium outline-offset-[-2px] hover:bg-hover",
                    column.isNumeric && "flex-row-reverse",
                    at < labels && "text-ink-soft",
                  )}
                >
                  <span className="truncate">{column.name || <span className="sr-only">Row label</span>}</span>
                  {order === "ascending" && <ArrowUp size={11} className="shrink-0 text-accent" aria-hidden="true" />}
                  {order === "descending" && <ArrowDown size={11} className="shrink-0 text-accent" aria-hidden="true" />}
                </button>
              </div>
            );
          })}
        </div>
        {typed && (
          <div role="row" className="grid pb-1.5" style={{ gridTemplateColumns: template }}>
            {hasNumbers && <span role="presentation" className="sticky left-0 z-10 bg-sunken" />}
            {columns.map((column, at) => (
              <div
                key={column.number}
                role="gridcell"
                style={at < labels ? { left: lefts[at] } : {}}
                className={classes("min-w-0 bg-sunken px-1", at < labels && "sticky z-10", at === labels - 1 && "border-r border-line-strong/60")}
              >
                <input
                  aria-label={`Filter ${column.name || "row labels"}`}
                  placeholder={column.isNumeric ? "> 10" : "contains"}
                  title="A part of the value, or: > 10, <= 2024-01-31, = x, != x, empty, not empty"
                  value={typed[column.number] ?? ""}
                  onChange={(event) => onType(column.number, event.target.value)}
                  spellCheck={false}
                  autoComplete="off"
                  className={classes(
                    "h-6 w-full min-w-0 rounded border border-line bg-raised px-1.5 text-xs outline-none placeholder:text-ink-faint focus:border-accent",
                    column.isNumeric && "text-right",
                  )}
                />
              </div>
            ))}
          </div>
        )}
      </div>
      <div role="rowgroup" style={{ height: tall, width: total }} className={classes("relative min-w-full transition-opacity", rows.isStale && "opacity-50")}>
        {Array.from({ length: Math.max(0, to - from) }, (_, count) => from + count).map((row) => {
          const known = rows.get(row);
          return (
            <div
              key={row}
              role="row"
              aria-rowindex={row + 2}
              className="group/row absolute left-0 grid min-w-full border-b border-line/60"
              style={{ top: place(row), height: ROW, width: total, gridTemplateColumns: template }}
            >
              {hasNumbers && (
                <span role="presentation" className="sticky left-0 z-10 flex items-center justify-end bg-surface pr-2 text-2xs text-ink-faint tabular-nums select-none">
                  {known ? known.number + firstNumber : ""}
                </span>
              )}
              {columns.map((column, at) => {
                const value = known?.cells[at];
                const isActive = selection?.cell.row === row && selection.cell.column === at;
                const text = known ? (formats[at] ?? plain)(value) : "";
                return (
                  <div
                    key={column.number}
                    id={`${id}${row}-${at}`}
                    role={at < labels ? "rowheader" : "gridcell"}
                    aria-colindex={at + 1}
                    aria-selected={isSelected(row, at)}
                    data-row={row}
                    data-column={at}
                    title={text.length > 20 || column.isNumeric ? plain(value) : undefined}
                    style={at < labels ? { left: lefts[at] } : {}}
                    className={classes(
                      "truncate px-2.5 leading-7 select-none",
                      column.isNumeric ? "text-right tabular-nums" : "text-left",
                      at < labels ? "sticky z-10 font-medium text-ink-soft" : "",
                      at === labels - 1 && "border-r border-line-strong/60",
                      isSelected(row, at) ? "bg-accent-soft" : classes(at < labels && "bg-surface", "group-hover/row:bg-sunken"),
                      isActive && "shadow-[inset_0_0_0_1.5px_var(--accent)]",
                    )}
                  >
                    {!known ? <span className="inline-block h-2.5 w-3/5 rounded bg-hover" /> : text || <Nothing value={value} />}
                  </div>
                );
              })}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** A missing value; an empty text shows nothing. */
function Nothing({ value }: { value: unknown }) {
  return value === null || value === undefined ? (
    <span className="text-ink-faint">
      <span aria-hidden="true">–</span>
      <span className="sr-only">missing</span>
    </span>
  ) : null;
}
