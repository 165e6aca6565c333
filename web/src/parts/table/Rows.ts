/** The rows of one table in one order: those that are here, and those that are fetched when they are scrolled to. */

import { ApiProblem, explain } from "../../api/http";
import { Signal } from "../../state/store";
import type { Source } from "./source";
import { asText, everything, inView, isEverything, rowsOf, type Column, type Row, type Table, type View } from "./table";

const PAGE = 200;
const MOST_KEPT = 20_000;
const MOST_AT_ONCE = 20_000; // rows in one request for text
const SOON_MS = 40;

export interface Problem {
  message: string;
  hint: string;
  /** The rows are gone for good: trying again does not help. */
  isFinal: boolean;
}

/** What a text is made of: rows and columns of the grid (null: all columns, also those that are not shown), and names. */
export interface Piece {
  from: number;
  to: number;
  columns: [number, number] | null;
  names: boolean;
}

export class Rows {
  readonly changed = new Signal<void>();
  version = 0;
  view: View = everything;
  matched: number;
  /** Why rows are missing. */
  problem: Problem | null = null;
  /** A new order was asked for, and the rows shown are still those of the old one. */
  isStale = false;
  private readonly first: Row[];
  private known = new Map<number, Row>();
  private local: Row[] | null = null;
  private readonly underWay = new Map<number, AbortController>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly table: Table,
    readonly columns: Column[],
    readonly labels: number,
    private readonly source: Source | null,
  ) {
    this.first = rowsOf(table);
    this.matched = this.isComplete ? this.first.length : table.shape[0];
    this.know(0, this.first);
  }

  /** Are all rows here, or all that will ever be? */
  get isComplete(): boolean {
    return this.source === null || this.problem?.isFinal === true || (this.table.rows.length >= this.table.shape[0] && !this.table.id);
  }

  get(at: number): Row | undefined {
    return this.local ? this.local[at] : this.known.get(at);
  }

  /** Shows other rows, or the same in another order. */
  show(view: View): void {
    this.view = view;
    this.stop();
    if (!this.problem?.isFinal) this.problem = null;
    if (this.isComplete) {
      this.local = isEverything(view) ? this.first : inView([...this.first], this.columns, view);
      this.matched = this.local.length;
      return this.tell();
    }
    if (isEverything(view)) {
      this.known = new Map();
      this.matched = this.table.shape[0];
      this.isStale = false;
      this.know(0, this.first);
      return this.tell();
    }
    this.isStale = true;
    void this.fetch(0);
    this.tell();
  }

  /** Sees to it that these rows come. */
  want(from: number, to: number): void {
    if (this.isComplete || this.isStale || this.problem) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      for (let page = Math.floor(from / PAGE); page * PAGE < Math.min(to, this.matched); page++) {
        const missing = range(Math.max(from, page * PAGE), Math.min(to, (page + 1) * PAGE, this.matched)).some((at) => !this.known.has(at));
        if (missing && !this.underWay.has(page)) void this.fetch(page);
      }
    }, SOON_MS);
  }

  retry(): void {
    this.problem = null;
    if (this.isStale) this.show(this.view);
    else this.tell();
  }

  stop(): void {
    clearTimeout(this.timer);
    for (const request of this.underWay.values()) request.abort();
    this.underWay.clear();
  }

  /** Rows as text, piece by piece, with all digits and whole texts. */
  async *text(form: "csv" | "tsv", piece: Piece, signal: AbortSignal): AsyncGenerator<{ text: string; rows: number }> {
    const { from, to, names } = piece;
    const [first, last] = piece.columns ?? [0, this.columns.length];
    const columns = this.columns.slice(first, last);
    if (this.isComplete || !this.source) {
      const rows = range(from, Math.min(to, this.matched)).map((at) => (this.get(at)?.cells ?? []).slice(first, last));
      yield { text: (names ? asText([columns.map((column) => column.name)], form) : "") + asText(rows, form), rows: rows.length };
      return;
    }
    const data = columns.map((column) => column.number).filter((number) => number >= 0);
    for (let offset = from; offset < to; ) {
      const answer = await this.source(
        {
          ...this.view,
          form,
          offset,
          limit: Math.min(MOST_AT_ONCE, to - offset),
          columns: piece.columns && [data[0] ?? 0, (data.at(-1) ?? -1) + 1],
          labels: first < this.labels,
          header: names && offset === from,
        },
        signal,
      );
      if (answer.count === 0) return;
      offset += answer.count;
      yield { text: answer.text, rows: answer.count };
    }
  }

  private async fetch(page: number): Promise<void> {
    const { source, view } = this;
    if (!source) return;
    const request = new AbortController();
    this.underWay.set(page, request);
    try {
      for (let offset = page * PAGE; offset < (page + 1) * PAGE; ) {
        const wanted = { ...view, offset, limit: (page + 1) * PAGE - offset, columns: [0, this.table.columns.length] as [number, number] };
        const answer = await source(wanted, request.signal);
        if (request.signal.aborted) return;
        this.accept(offset, rowsOf({ index: answer.index ?? null, rows: answer.rows ?? [] }, answer.numbers), answer.matched);
        if (answer.count === 0) break;
        offset += answer.count;
      }
    } catch (failure) {
      if (!request.signal.aborted) this.fail(failure);
    } finally {
      if (this.underWay.get(page) === request) this.underWay.delete(page);
    }
  }

  private accept(offset: number, rows: Row[], matched: number): void {
    if (this.isStale || this.known.size > MOST_KEPT) this.known = new Map();
    this.isStale = false;
    this.matched = matched;
    this.know(offset, rows);
    this.tell();
  }

  private fail(failure: unknown): void {
    const isFinal = failure instanceof ApiProblem && (failure.status === 404 || failure.status === 410);
    this.problem = { ...explain(failure), isFinal };
    if (isFinal) {
      this.isStale = false;
      return this.show(this.view);
    }
    this.tell();
  }

  private know(offset: number, rows: Row[]): void {
    rows.forEach((row, at) => this.known.set(offset + at, row));
  }

  private tell(): void {
    this.version++;
    this.changed.emit();
  }
}

const range = (from: number, to: number): number[] => Array.from({ length: Math.max(0, to - from) }, (_, at) => from + at);
