/** The packages of the open sandbox: searched, installed and removed. */

import * as api from "../api/packages";
import type { PackageLanguage } from "../api/packages";
import type { FoundPackageAnswer, InstallAnswer, PackageAnswer } from "../api/schema";
import { keyOf, searchText, typedPackage } from "./packageNames";
import { left, opened, sandbox, theSandbox } from "./sandbox";
import { createStore } from "./store";

/** An install or a removal that is under way, or that has failed. */
export interface Work {
  kind: "install" | "remove";
  requirement: string;
  /** When it began, in milliseconds; null once it has failed. */
  began: number | null;
  problem: unknown;
}

interface Search {
  phase: "none" | "asking" | "ready" | "failed";
  problem: unknown;
  /** While the index is asked: those of the search before. */
  items: FoundPackageAnswer[];
  warnings: string[];
}

interface Packages {
  phase: "none" | "ready" | "failed";
  problem: unknown;
  all: PackageAnswer[];
  language: PackageLanguage;
  text: string;
  search: Search;
  /** By language and name. */
  work: Record<string, Work>;
  /** The outcome of the last install or removal. */
  news: string;
  warnings: string[];
  /** Packages that running sessions have loaded in another version. */
  restart: string[];
}

const noSearch: Search = { phase: "none", problem: null, items: [], warnings: [] };
const nothing: Omit<Packages, "language"> = {
  phase: "none",
  problem: null,
  all: [],
  text: "",
  search: noSearch,
  work: {},
  news: "",
  warnings: [],
  restart: [],
};
const SOON_MS = 120;
const PAUSE_MS = 250; // in typing, before the index is asked
export const packages = createStore<Packages>({ ...nothing, language: "python" });

let watchers = 0;
let timer = 0;
let asked = 0; // counts requests: the answer to an older one is dropped
let pause = 0;
let asking = new AbortController();
const answers = new Map<string, Pick<Search, "items" | "warnings">>(); // of searches, by language and text

/** Keeps the list up to date while the panel is visible; returns a function that stops it. */
export function watchPackages(): () => void {
  watchers++;
  void refresh();
  return () => void watchers--;
}

export async function refresh(): Promise<void> {
  const number = ++asked;
  try {
    const all = await api.packages(theSandbox());
    if (number === asked) packages.set({ phase: "ready", problem: null, all });
  } catch (problem) {
    if (number === asked) packages.set({ phase: "failed", problem });
  }
}

// --- searching

export function chooseLanguage(language: PackageLanguage): void {
  packages.set({ language });
  search(packages.get().text);
}

/** Searches the index once the person pauses; the lists are filtered at once. */
export function search(text: string): void {
  const { language, work } = packages.get();
  const underWay = Object.entries(work).filter(([, one]) => one.began !== null);
  packages.set({ text, work: Object.fromEntries(underWay), news: "", warnings: [] });
  clearTimeout(pause);
  asking.abort();
  const wanted = searchText(text, language);
  if (!wanted) return packages.set({ search: noSearch });
  const known = answers.get(`${language}:${wanted}`);
  if (known) return packages.set({ search: { ...known, phase: "ready", problem: null } });
  packages.set(({ search: before }) => ({ search: { ...before, phase: "asking", problem: null, warnings: [] } }));
  pause = window.setTimeout(() => void ask(wanted, language), PAUSE_MS);
}

export const searchAgain = (): void => search(packages.get().text);

async function ask(wanted: string, language: PackageLanguage): Promise<void> {
  asking = new AbortController();
  const { signal } = asking;
  try {
    const { items, warnings } = await api.searchPackages(wanted, language, signal);
    if (warnings.length === 0) answers.set(`${language}:${wanted}`, { items, warnings });
    if (!signal.aborted) packages.set({ search: { phase: "ready", problem: null, items, warnings } });
  } catch (problem) {
    if (!signal.aborted) packages.set({ search: { ...noSearch, phase: "failed", problem } });
  }
}

// --- installing and removing

/** Installs a package; an error stays beside it until the next attempt or search. */
export const install = (requirement: string, language: PackageLanguage): Promise<void> =>
  work("install", requirement, language, async (id) => {
    const done = await api.installPackages(id, { packages: [requirement], language });
    return () => packages.set(({ restart }) => ({ news: inWords(done), warnings: done.warnings, restart: [...new Set([...restart, ...done.restart])] }));
  });

export const remove = (name: string, language: PackageLanguage): Promise<void> =>
  work("remove", name, language, async (id) => {
    const { removed } = await api.removePackage(id, name, language);
    const news = removed.length > 0 ? `${removed.join(", ")} is removed.` : `${name} was removed already.`;
    return () => packages.set(({ restart }) => ({ news, warnings: [], restart: restart.filter((one) => !removed.includes(one)) }));
  });

/** Does work for one package, unless it has some already; `carryOut` returns how to show the outcome. */
async function work(kind: Work["kind"], requirement: string, language: PackageLanguage, carryOut: (id: string) => Promise<() => void>): Promise<void> {
  const id = theSandbox();
  const key = keyOf(kind === "install" ? (typedPackage(requirement, language)?.name ?? requirement) : requirement, language);
  if (packages.get().work[key]?.began) return;
  const isHere = () => sandbox.get().record?.id === id && sandbox.get().phase === "open";
  const mark = (one: Work) => packages.set(({ work: all }) => ({ work: { ...all, [key]: one } }));
  mark({ kind, requirement, began: Date.now(), problem: null });
  try {
    const show = await carryOut(id);
    if (!isHere()) return;
    await refresh(); // before the button is free again: the list then shows the outcome
    show();
    packages.set(({ work: { [key]: _, ...others } }) => ({ work: others }));
  } catch (problem) {
    if (isHere()) mark({ kind, requirement, began: null, problem });
  }
}

function inWords({ packages: added, satisfied }: InstallAnswer): string {
  const names = added.map((one) => `${one.name} ${one.version}`);
  if (names.length === 0) return `${satisfied.map((one) => `${one.name} ${one.version}`).join(", ") || "It"} was there already.`;
  if (names.length === 1) return `${names[0]} is installed.`;
  return names.length <= 3 ? `${names.join(", ")} are installed.` : `${names.slice(0, 2).join(", ")} and ${names.length - 2} others are installed.`;
}

export const forgetRestart = (): void => packages.set({ restart: [] });

// --- whatever else changes them

function soon(): void {
  clearTimeout(timer);
  if (watchers > 0) timer = window.setTimeout(() => void refresh(), SOON_MS);
}

const INSTALLED = /(^|\/)(\.local|node_modules)(\/|$)/; // where pip and npm write, in cells, commands and terminals
const telling = /^(packages|restore|undo)$/;

opened.on(({ live }) => {
  live.happened.on(({ kind, context }) => {
    if (telling.test(kind)) soon();
    // An undo brings the session back with the versions that it had loaded.
    if (kind === "restore" || kind === "undo" || (kind === "restart" && !context)) forgetRestart();
  });
  live.changed.on((changes) => {
    if (changes.some(({ path }) => INSTALLED.test(path))) soon();
  });
  soon();
});
left.on(() => {
  asked++;
  clearTimeout(pause);
  asking.abort();
  packages.set(nothing);
});
