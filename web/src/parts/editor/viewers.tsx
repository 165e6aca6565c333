/** Views of files that are more than their text. A row here is all that a new view needs. */

import { type ComponentType } from "react";
import { lazily } from "../../ui/lazily";

export interface Viewer {
  id: string;
  /** Its name in the switch between the view and the text. */
  label: string;
  matches(path: string): boolean;
  View: ComponentType<{ path: string }>;
  /** Whether the file is also shown as text, with a switch between both. */
  hasText: boolean;
  /** Whether the view is shown when the file is opened; otherwise the text is. */
  first: boolean;
  /** Whether a text is what the view expects; if it is not, the text is shown when the file is opened. */
  suits?(text: string): boolean;
}

const endsIn = (...endings: string[]) => {
  const pattern = new RegExp(`\\.(${endings.join("|")})$`, "i");
  return (path: string) => pattern.test(path);
};

const TableFile = lazily(() => import("./views/TableFile"));
const PictureFile = lazily(() => import("./views/PictureFile"));
const table = { label: "Table", View: TableFile };
const picture = { label: "Picture", View: PictureFile };

export const viewers: Viewer[] = [
  { ...table, id: "text-table", matches: endsIn("csv", "tsv", "tab"), hasText: true, first: true, suits: (text) => /\S/.test(text) },
  { ...table, id: "json-table", matches: endsIn("json"), hasText: true, first: true, suits: (text) => /^\s*\[\s*\{/.test(text) },
  { ...table, id: "json-lines", matches: endsIn("jsonl", "ndjson"), hasText: true, first: true, suits: (text) => /^\s*\{/.test(text) },
  { ...table, id: "table", matches: endsIn("parquet", "pq", "xlsx", "xlsm", "xls"), hasText: false, first: true },
  { ...picture, id: "picture", matches: endsIn("png", "jpg", "jpeg", "gif", "webp", "avif", "bmp", "ico"), hasText: false, first: true },
  { id: "pdf", label: "PDF", matches: endsIn("pdf"), View: lazily(() => import("./views/PdfFile")), hasText: false, first: true },
  { ...picture, id: "drawing", matches: endsIn("svg"), hasText: true, first: true, suits: (text) => /\S/.test(text) },
  {
    id: "markdown",
    label: "Preview",
    matches: endsIn("md", "markdown"),
    View: lazily(() => import("./views/MarkdownFile")),
    hasText: true,
    first: false,
  },
  {
    id: "notebook",
    label: "Cells",
    matches: endsIn("ipynb"),
    View: lazily(() => import("../notebook/NotebookView")),
    hasText: true,
    first: true,
  },
  {
    id: "html",
    label: "Preview",
    matches: endsIn("html", "htm"),
    View: lazily(() => import("../previews/HtmlFile")),
    hasText: true,
    first: true,
  },
];

export const viewerOf = (path: string): Viewer | undefined => viewers.find((viewer) => viewer.matches(path));
