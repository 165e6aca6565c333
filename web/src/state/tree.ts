/** The sandbox's files as a tree: folders are listed when they are opened, and again when something changes in them. */

import * as api from "../api/cloche";
import type { EntryAnswer } from "../api/schema";
import { complain } from "./toasts";
import { keep, recall } from "./kept";
import { visible } from "./names";
import { left, opened, theSandbox } from "./sandbox";
import { createStore, Signal } from "./store";

export const ROOT = "/sandbox";
const DEPTH = 8;
const MOST_FOUND = 5000;

export interface Tree {
  /** The entries of each listed folder. */
  folders: Record<string, EntryAnswer[]>;
  expanded: Record<string, boolean>;
  selected: string | null;
  phase: "none" | "loading" | "ready" | "failed";
  problem: unknown;
  /** A folder has more entries than can be listed. */
  truncated: boolean;
}

const nothing: Tree = { folders: {}, expanded: {}, selected: null, phase: "none", problem: null, truncated: false };
export const tree = createStore<Tree>(nothing);
/** Somebody changed, moved or deleted a file that may be open. */
export const touched = new Signal<{ kind: string; path: string }>();

export const parentOf = (path: string): string => path.slice(0, path.lastIndexOf("/")) || "/";
export const baseOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);
export const join = (folder: string, name: string): string => (folder === "/" ? `/${name}` : `${folder}/${name}`);
/** The path relative to `/sandbox`, for people. */
export const shown = (path: string): string => visible(path.startsWith(`${ROOT}/`) ? path.slice(ROOT.length + 1) : path);
/** The name of a file or folder, for people. */
export const nameOf = (path: string): string => visible(baseOf(path));
export const isWithin = (path: string, folder: string): boolean => path === folder || path.startsWith(`${folder}/`);

/** Folders first, then by name, numbers as people count. */
export function inOrder(entries: EntryAnswer[]): EntryAnswer[] {
  const rank = (entry: EntryAnswer) => (entry.kind === "folder" || entry.kind === "directory" ? 0 : 1);
  return [...entries].sort((a, b) => rank(a) - rank(b) || a.path.localeCompare(b.path, undefined, { numeric: true }));
}

export const isFolder = (entry: EntryAnswer): boolean => entry.kind === "folder" || entry.kind === "directory";

export async function list(folder: string): Promise<void> {
  try {
    const found = await api.listFiles(theSandbox(), folder);
    tree.set(({ folders, truncated }) => ({
      folders: { ...folders, [folder]: inOrder(found.items) },
      phase: "ready",
      truncated: truncated || found.truncated,
    }));
  } catch (problem) {
    if (folder === ROOT) tree.set({ phase: "failed", problem });
    else
      tree.set(({ folders, expanded }) => {
        const { [folder]: _, ...rest } = folders;
        return { folders: rest, expanded: { ...expanded, [folder]: false } };
      });
  }
}

/** Files to be found by name, also in folders that nobody has opened; not what only programs read. */
export async function allFiles(): Promise<EntryAnswer[]> {
  const { items } = await api.listDeep(theSandbox(), ROOT, DEPTH, MOST_FOUND);
  return items.filter((entry) => entry.kind === "file" && !/\/(node_modules|__pycache__|\.[^/]*)\//.test(entry.path));
}

export function expand(folder: string, open: boolean): void {
  tree.set(({ expanded }) => ({ expanded: { ...expanded, [folder]: open } }));
  keep("expanded", Object.keys(tree.get().expanded).filter((path) => tree.get().expanded[path]).slice(0, 200));
  if (open && !tree.get().folders[folder]) void list(folder);
}

export const select = (path: string | null): void => tree.set({ selected: path });

let stale = new Set<string>();
let timer = 0;

/** Lists folders again, a moment later, because changes come in bursts. */
function refresh(folder: string): void {
  stale.add(folder);
  if (timer) return;
  timer = window.setTimeout(() => {
    timer = 0;
    const folders = [...stale].filter((one) => tree.get().folders[one]);
    stale = new Set();
    for (const one of folders) void list(one);
  }, 80);
}

export async function createFile(path: string, contents: BodyInit = ""): Promise<void> {
  await api.writeFile(theSandbox(), path, contents);
  await list(parentOf(path));
}

export async function createFolder(path: string): Promise<void> {
  await api.makeFolder(theSandbox(), path);
  await list(parentOf(path));
  expand(path, true);
}

export async function move(path: string, newPath: string): Promise<void> {
  if (path === newPath) return;
  await api.renameFile(theSandbox(), path, newPath);
  touched.emit({ kind: `moved:${newPath}`, path });
  await Promise.all([...new Set([parentOf(path), parentOf(newPath)])].map(list));
}

export async function remove(path: string): Promise<void> {
  await api.removeFile(theSandbox(), path);
  touched.emit({ kind: "removed", path });
  await list(parentOf(path));
}

export interface Upload {
  name: string;
  contents: Blob;
}

/** Writes files into a folder, one after the other; `onProgress` receives the number done. */
export async function upload(folder: string, files: Upload[], onProgress: (done: number) => void): Promise<void> {
  let done = 0;
  for (const file of files) {
    await api.writeFile(theSandbox(), join(folder, file.name), file.contents);
    onProgress(++done);
  }
  await list(folder);
  for (const path of new Set(files.filter((file) => file.name.includes("/")).map((file) => join(folder, file.name.split("/")[0] ?? "")))) {
    if (tree.get().folders[path]) await list(path);
  }
}

opened.on(({ live }) => {
  const expanded = Object.fromEntries(recall<string[]>("expanded", [`${ROOT}/code`, `${ROOT}/output`]).map((path) => [path, true]));
  tree.set({ ...nothing, phase: "loading", expanded });
  void list(ROOT).then(() =>
    Promise.all(Object.keys(expanded).filter((path) => path !== ROOT).map(list)).catch(complain),
  );
  live.changed.on((changes) => {
    for (const { kind, path } of changes) {
      refresh(parentOf(path));
      touched.emit({ kind, path });
    }
  });
  // Changes during a disconnection are found by listing again.
  live.connected.on((connected) => {
    if (connected) for (const folder of Object.keys(tree.get().folders)) refresh(folder);
  });
});

left.on(() => tree.set(nothing));
