/** Exports of notebooks, and the way between notebooks and scripts. */

import * as api from "../api/cloche";
import { active, openFile, save } from "./documents";
import { about, isSession, languageOf } from "./languages";
import { plain } from "./names";
import { scriptOf, notebookFrom } from "./notebook/script";
import { isNotebook, languageOfNotebook, openNotebook } from "./notebooks";
import { theSandbox } from "./sandbox";
import { attempt, note } from "./toasts";
import { baseOf, createFile, join, nameOf, parentOf } from "./tree";

/** Downloads a notebook with its outputs. */
export function exportNotebook(path: string): void {
  attempt(async () => {
    await save(path);
    const link = document.createElement("a");
    link.href = api.fileAddress(theSandbox(), path);
    link.download = plain(baseOf(path));
    link.click();
  });
}

/** Writes a notebook as a script beside it, and opens that. */
export function exportScript(path: string): void {
  const open = openNotebook(path);
  const language = open && languageOfNotebook(open.notebook);
  if (!open || open.problem || !language) return;
  const ending = (about(language)?.extensions[0] ?? ".txt").replace(/^\.?/, ".");
  attempt(() => writeBeside(path, ending, scriptOf(open.notebook, language)));
}

/** Can the file that is open become a notebook? */
export function canBecomeNotebook(): boolean {
  const document = active();
  if (document?.phase !== "ready" || isNotebook(document.path)) return false;
  const language = languageOf(document.path);
  return language !== null && isSession(language.name);
}

/** Writes the script that is open as a notebook beside it, and opens that. */
export function exportAsNotebook(): void {
  const document = active();
  if (!document || !canBecomeNotebook()) return;
  const language = languageOf(document.path)?.name ?? "python";
  attempt(() => writeBeside(document.path, ".ipynb", notebookFrom(document.text, language)));
}

/** Writes a file of the same name and another ending; a file that is there keeps its name. */
async function writeBeside(path: string, ending: string, text: string): Promise<void> {
  const folder = parentOf(path);
  const name = baseOf(path).replace(/\.[^.]+$/, "");
  const taken = new Set((await api.listFiles(theSandbox(), folder)).items.map((entry) => baseOf(entry.path)));
  let target = `${name}${ending}`;
  for (let number = 2; taken.has(target); number++) target = `${name}-${number}${ending}`;
  await createFile(join(folder, target), text);
  await openFile(join(folder, target));
  note(`Saved as ${nameOf(target)}`, `${nameOf(path)} stays as it is.`);
}
