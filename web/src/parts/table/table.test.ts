import { describe, expect, it } from "vitest";
import { ApiProblem } from "../../api/http";
import type { RowsAnswer, RowsBody } from "../../api/schema";
import { Rows } from "./Rows";
import { asMarkdown, asText, columnsOf, compareValues, filterOf, formatsOf, inView, rowsOf, type Table } from "./table";

const table: Table = {
  columns: [{ name: "n", type: "float64" }, { name: "t", type: "str" }],
  index: { names: ["a", "b"], type: "multiindex", values: [["x", 1], ["y", 2], ["y", 3]] },
  shape: [3, 2],
  rows: [[2.5, "Two"], [null, "none"], [10, null]],
};
const { columns, labels } = columnsOf(table);

describe("columns and rows", () => {
  it("begin with the labels, one column for each level", () => {
    expect(labels).toBe(2);
    expect(columns.map(({ name, number }) => [name, number])).toEqual([["a", -1], ["b", -2], ["n", 0], ["t", 1]]);
    expect(rowsOf(table)[1]).toEqual({ number: 1, cells: ["y", 2, null, "none"] });
  });

  it("know numbers by the names of pandas, Polars and SQL", () => {
    const types = ["int64", "Float32", "Decimal", "BIGINT", "INTEGER", "UTINYINT", "DECIMAL(21,1)", "DOUBLE", "str", "INTERVAL", "VARCHAR", "DATE"];
    const { columns: all } = columnsOf({ columns: types.map((type) => ({ name: type, type })), index: null });
    expect(all.filter((column) => !column.isNumeric).map(({ type }) => type)).toEqual(["str", "INTERVAL", "VARCHAR", "DATE"]);
  });

  it("are sorted as people would, missing values last", () => {
    expect([10, 9, null, 1].sort(compareValues)).toEqual([1, 9, 10, null]);
    expect(["w10", "w9", "W1"].sort(compareValues)).toEqual(["W1", "w9", "w10"]);
    const sorted = (descending: boolean) =>
      inView(rowsOf(table), columns, { filters: [], search: "", sort: { column: 0, descending } }).map((row) => row.number);
    expect([sorted(false), sorted(true)]).toEqual([[0, 2, 1], [2, 0, 1]]);
  });

  it("are filtered by what somebody typed", () => {
    const found = (typed: string, column: number) => {
      const filter = filterOf(typed, column);
      return inView(rowsOf(table), columns, { filters: filter ? [filter] : [], search: "", sort: null }).map((row) => row.number);
    };
    expect([found("> 3", 0), found("!= 10", 0), found("empty", 0), found("not empty", 1)]).toEqual([[2], [0], [1], [0, 1]]);
    expect([found("TW", 1), found("= none", 1), found("y", -1), found(">", 0)]).toEqual([[0], [1], [1, 2], [0, 1, 2]]);
  });
});

describe("values", () => {
  const shown = (type: string, values: unknown[]) => {
    const of = { columns: [{ name: "v", type }], index: null, rows: values.map((value) => [value]) };
    const [format] = formatsOf(columnsOf(of).columns, rowsOf(of));
    return values.map((value) => format?.(value));
  };

  it("have as many decimals as they need, and at most six digits that count", () => {
    expect(shown("float64", [1, 2.5])).toEqual(["1.0", "2.5"]);
    expect(shown("float64", [1 / 3, 2])).toEqual(["0.33333", "2.00000"]);
    expect(shown("float64", [0.1 + 0.2, 0.25])).toEqual(["0.30", "0.25"]);
    expect(shown("float64", [123456.789, 1])).toEqual(["123456.79", "1.00"]);
    expect(shown("float64", [1e-9, 1])).toEqual(["1.00e-9", "1"]);
    expect(shown("DECIMAL(21,1)", [0, 2.5])).toEqual(["0.0", "2.5"]);
    expect(shown("int64", [2024, 1])).toEqual(["2024", "1"]);
  });

  it("that are all midnight are days", () => {
    expect(shown("datetime64[us]", ["2024-01-31T00:00:00", null])).toEqual(["2024-01-31", ""]);
    expect(shown("datetime64[us]", ["2024-01-31T10:30:00"])).toEqual(["2024-01-31 10:30:00"]);
  });

  it("become text that spreadsheets and Markdown understand", () => {
    expect(asText([["a,b", 'say "x"'], [1.5, null]], "csv")).toBe('"a,b","say ""x"""\n1.5,\n');
    expect(asMarkdown(["n", "t"], [[1, "a|b\nc"]])).toBe("| n | t |\n| --- | --- |\n| 1 | a\\|b c |\n");
  });
});

describe("rows on demand", () => {
  const answer = (wanted: RowsBody): RowsAnswer => {
    const offset = wanted.offset ?? 0;
    const count = Math.max(0, Math.min(wanted.limit ?? 0, 70, 1000 - offset)); // an answer has a bounded size
    const numbers = Array.from({ length: count }, (_, at) => offset + at);
    return { shape: [1000, 1], matched: 1000, offset, count, numbers, rows: numbers.map((n) => [n]), first_column: 0, text: "", version: "", sheet: "", note: "" };
  };
  const long: Table = { columns: [{ name: "n", type: "int64" }], index: null, shape: [1000, 1], rows: [[0], [1]], id: "x" };
  const made = (source: (wanted: RowsBody) => Promise<RowsAnswer>) => new Rows(long, columnsOf(long).columns, 0, source);
  const changed = (rows: Rows) => new Promise<void>((resolve) => { const off = rows.changed.on(() => { off(); resolve(); }); });

  it("come for the part in sight, however many an answer has", async () => {
    const rows = made(async (wanted) => answer(wanted));
    rows.want(400, 430);
    for (;;) {
      await changed(rows);
      if (rows.get(429)) break;
    }
    expect([rows.get(400)?.cells, rows.get(50), rows.get(1)?.cells]).toEqual([[400], undefined, [1]]);
  });

  it("are those that came with the result, once the session has forgotten the table", async () => {
    const rows = made(async () => {
      throw new ApiProblem(404, "gone", "Gone.", "");
    });
    rows.show({ filters: [], search: "", sort: { column: 0, descending: true } });
    while (!rows.problem) await changed(rows);
    expect([rows.problem.isFinal, rows.matched, rows.get(0)?.cells, rows.isStale]).toEqual([true, 2, [1], false]);
  });
});
