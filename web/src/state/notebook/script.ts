/** Between a script with `# %%` cells and a notebook, in both directions. Needs no DOM. */

import { cellsOf } from "../cells";
import { newCell, newNotebook, textOf, type Cell, type Notebook } from "./format";
import { memberOf, membersOf } from "./raw";

const COMMENTS: Record<string, string> = { javascript: "//", typescript: "//", sqlite: "--" };
const commentOf = (language: string): string => COMMENTS[language] ?? "#";
const MARK = /^\s*(?:#|\/\/|--)\s*%%(.*)$/;
const KIND = /\s*\[(markdown|md|raw)\]\s*/;

/** The text of a notebook with the cells of a script. */
export function notebookFrom(script: string, language: string): string {
  const empty = newNotebook(language);
  const cells = cellsOf(script.replace(/\r\n?/g, "\n")).map(({ code }) => cellFrom(empty, code, commentOf(language)));
  return textOf(cells.length > 0 ? { ...empty, cells } : empty);
}

function cellFrom(notebook: Notebook, code: string, comment: string): Cell {
  const [first = "", ...rest] = code.split("\n");
  const mark = MARK.exec(first);
  if (!mark) return newCell(notebook, "code", trimmed(code));
  const written = KIND.exec(mark[1] ?? "")?.[1];
  const title = (mark[1] ?? "").replace(KIND, "").trim();
  const metadata = title ? { title } : {};
  const body = trimmed(rest.join("\n"));
  if (written === undefined) return newCell(notebook, "code", body, metadata);
  const text = body.split("\n").map((line) => withoutComment(line, comment)).join("\n");
  return newCell(notebook, written === "raw" ? "raw" : "markdown", text, metadata);
}

const trimmed = (text: string): string => text.replace(/^(?:[ \t]*\n)+|\s+$/g, "");

function withoutComment(line: string, comment: string): string {
  if (!line.startsWith(comment)) return line;
  return line.slice(comment.length).replace(/^ /, "");
}

/** The script with the cells of a notebook; outputs have no place in it. */
export function scriptOf({ cells }: Notebook, language: string): string {
  const comment = commentOf(language);
  return cells
    .map((cell) => {
      const title = titleOf(cell);
      const mark = [`${comment} %%`, ...(cell.kind === "code" ? [] : [`[${cell.kind}]`]), ...(title ? [title] : [])].join(" ");
      const lines = cell.source.split("\n");
      const body = cell.kind === "code" ? cell.source : lines.map((line) => (line ? `${comment} ${line}` : comment)).join("\n");
      return body.trim() ? `${mark}\n${body}\n` : `${mark}\n`;
    })
    .join("\n");
}

function titleOf({ raw }: Cell): string {
  const metadata = JSON.parse(memberOf(membersOf(raw), "metadata") ?? "{}") as { title?: unknown } | null;
  const title = metadata?.title;
  return typeof title === "string" ? title.replace(/\s+/g, " ").slice(0, 200) : "";
}
