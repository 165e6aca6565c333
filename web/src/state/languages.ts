/** Which language a file is in, and what the server can do with it. */

import type { LanguageAnswer } from "../api/schema";
import { app } from "./app";
import { keep, recall } from "./kept";

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
/** Those that people choose most, in that order. */
const FIRST = ["python", "javascript", "typescript", "bash"];
const NEXT = ["sql", "r", "java", "cpp", "c", "go", "rust"];
const MOST_RECENT = 3;

/** Remembers a choice, for the order of the next menu. */
export function noteLanguage(name: string): void {
  keep("languages", [name, ...recall<string[]>("languages", []).filter((one) => one !== name)].slice(0, MOST_RECENT));
}

/** The languages that fit what was typed: the most common, the last chosen, all others; those that cannot run come last. */
export function ordered(offered: LanguageAnswer[], typed = ""): LanguageAnswer[] {
  const order = [...FIRST, ...recall<string[]>("languages", []), ...NEXT];
  const place = ({ name, state }: LanguageAnswer): number =>
    (order.includes(name) ? order.indexOf(name) : order.length) + (state === "unavailable" ? 200 : state === "installable" ? 100 : 0);
  const wanted = typed.trim().toLowerCase();
  return offered
    .filter((one) => [one.title, one.name, ...one.extensions].some((text) => text.toLowerCase().includes(wanted)))
    .sort((a, b) => startsWith(b, wanted) - startsWith(a, wanted) || place(a) - place(b) || a.title.localeCompare(b.title));
}

const startsWith = ({ title, name }: LanguageAnswer, typed: string): number =>
  Number(typed !== "" && (title.toLowerCase().startsWith(typed) || name.startsWith(typed)));

/** Can it run as a program? */
export const isProgram = (name: string): boolean => about(name)?.programs ?? false;
/** Does it keep its variables from run to run? */
export const isSession = (name: string): boolean => about(name)?.sessions ?? true;
