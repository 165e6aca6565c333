/** Which language a file is in, and what the server can do with it. */

import type { LanguageAnswer } from "../api/schema";
import { app } from "./app";

/** The editor's names, where they differ from ours. */
const monacoNames: Record<string, string> = { bash: "shell", c: "cpp", sqlite: "sql" };

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

/** The language in which a file would run; null if the server does not know it. */
export const languageOf = (path: string): LanguageAnswer | null =>
  app.get().languages.find((language) => language.extensions.some((one) => one.replace(/^\./, "").toLowerCase() === ending(path))) ?? null;

export function monacoLanguageOf(path: string): string {
  const name = languageOf(path)?.name;
  return others[ending(path)] ?? (name ? (monacoNames[name] ?? name) : "plaintext");
}

export const about = (name: string): LanguageAnswer | undefined => app.get().languages.find((language) => language.name === name);
export const titleOf = (name: string): string => about(name)?.title ?? (name || "Code");
/** Can it run as a program? */
export const isProgram = (name: string): boolean => about(name)?.programs ?? false;
/** Does it keep its variables from run to run? */
export const isSession = (name: string): boolean => about(name)?.sessions ?? true;
