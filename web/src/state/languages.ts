/** Which language a file is in, and what the server can do with it. */

import type { LanguageAnswer } from "../api/schema";
import { app } from "./app";

/** By what the editor knows them, where that is another name than ours. */
const monacoNames: Record<string, string> = { bash: "shell", c: "cpp" };

const others: Record<string, string> = {
  md: "markdown",
  json: "json",
  ipynb: "json",
  html: "html",
  svg: "xml",
  xml: "xml",
  css: "css",
  yaml: "yaml",
  yml: "yaml",
  toml: "ini",
  ini: "ini",
  sql: "sql",
  h: "cpp",
  tsx: "typescript",
  jsx: "javascript",
};

const ending = (path: string): string => /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? "";

/** The language that a file would be run in; null when it is none of those that the server knows. */
export const languageOf = (path: string): LanguageAnswer | null =>
  app.get().languages.find((language) => language.extensions.some((one) => one.replace(/^\./, "") === ending(path))) ?? null;

export function monacoLanguageOf(path: string): string {
  const name = languageOf(path)?.name;
  return others[ending(path)] ?? (name ? (monacoNames[name] ?? name) : "plaintext");
}

export const about = (name: string): LanguageAnswer | undefined => app.get().languages.find((language) => language.name === name);
export const titleOf = (name: string): string => about(name)?.title ?? (name || "Code");
/** Can a file of it be run as a program of its own? */
export const isProgram = (name: string): boolean => about(name)?.programs ?? false;
/** Does it keep its variables from run to run? */
export const isSession = (name: string): boolean => about(name)?.sessions ?? true;
