/** Views of files that are more than their text. A row here is all that a new view needs. */

import { lazy, type ComponentType } from "react";

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

export const viewers: Viewer[] = [
  {
    id: "markdown",
    label: "Preview",
    matches: endsIn("md", "markdown"),
    View: lazy(() => import("./views/MarkdownFile")),
    hasText: true,
    first: false,
  },
  {
    id: "notebook",
    label: "Cells",
    matches: endsIn("ipynb"),
    View: lazy(() => import("../notebook/NotebookView")),
    hasText: true,
    first: true,
  },
  {
    id: "html",
    label: "Preview",
    matches: endsIn("html", "htm"),
    View: lazy(() => import("../previews/HtmlFile")),
    hasText: true,
    first: true,
  },
];

export const viewerOf = (path: string): Viewer | undefined => viewers.find((viewer) => viewer.matches(path));
