/** Splits a file into cells. */

export interface Cell {
  /** Lines from 0; the end is not in it. */
  start: number;
  end: number;
  title: string;
  code: string;
}

const MARK = /^\s*(?:#|\/\/|--)\s*%%(.*)$/;

/** The cells of a file: what lies between lines like `# %% title`; without any, the file is one. */
export function cellsOf(text: string): Cell[] {
  const lines = text.split("\n");
  const marks = lines.flatMap((line, index) => (MARK.test(line) ? [index] : []));
  if (marks.length === 0) return [{ start: 0, end: lines.length, title: "", code: text }];
  const starts = marks[0] === 0 ? marks : [0, ...marks];
  return starts
    .map((start, index) => {
      const end = starts[index + 1] ?? lines.length;
      const title = MARK.exec(lines[start] ?? "")?.[1]?.trim() ?? "";
      return { start, end, title, code: lines.slice(start, end).join("\n") };
    })
    .filter((cell) => cell.start !== 0 || cell.code.trim() !== "" || starts.length === 1);
}
