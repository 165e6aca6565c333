/** Drafts: typed text that the sandbox does not have yet, in this browser's storage.

All tabs of a browser share one storage, so each tab has drafts of its own: no tab can overwrite or remove another's.
A tab that was closed or has crashed leaves its drafts behind, and the next tab that opens the file takes them over. */

import { forget, keep, recall, recalled } from "./kept";

export interface Draft {
  text: string;
  /** The version of the file that was edited (empty: there was no file), and those that were sent without an answer. */
  base: string[];
  time: number;
}

type Message = { question: string } | { answer: string };

const NAME = "cloche.tab";
const ANSWER_MS = 150;
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("cloche.drafts");
const tab = claimed();

/** This tab's id, which survives a reload. The storage has it only between two pages of the tab: a duplicated tab
starts with a copy of that storage, and must not get the same id. */
function claimed(): string {
  const fresh = Math.random().toString(36).slice(2);
  try {
    const known = sessionStorage.getItem(NAME) ?? fresh;
    sessionStorage.removeItem(NAME);
    window.addEventListener("pagehide", () => sessionStorage.setItem(NAME, known));
    window.addEventListener("pageshow", () => sessionStorage.removeItem(NAME));
    return known;
  } catch {
    return fresh; // storage is forbidden, and there are no drafts either
  }
}

channel?.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if ("question" in data && data.question === tab) channel.postMessage({ answer: tab } satisfies Message);
});

const nameOf = (owner: string, path: string, of = tab): string => `draft.${owner}.${of}.${path}`;

/** Returns false if the draft could not be stored. */
export const keepDraft = (owner: string, path: string, draft: Draft): boolean => keep(nameOf(owner, path), draft);

export const forgetDraft = (owner: string, path: string): void => forget(nameOf(owner, path));

/** This tab's draft of a file, else the latest that a closed tab has left behind. */
export async function findDraft(owner: string, path: string): Promise<Draft | null> {
  const mine = recall<Draft | null>(nameOf(owner, path), null);
  if (mine) return mine;
  const left: { name: string; draft: Draft }[] = [];
  await Promise.all(
    othersOf(owner, path).map(async ({ name, tab: other }) => {
      if (other && (await isAlive(other))) return;
      const draft = recall<Draft | null>(name, null);
      if (draft) left.push({ name, draft });
    }),
  );
  const [latest] = left.sort((a, b) => (b.draft.time ?? 0) - (a.draft.time ?? 0));
  if (!latest) return null;
  if (keepDraft(owner, path, latest.draft)) forget(latest.name);
  return latest.draft;
}

/** Drafts of this file by other tabs. An older page stored them without the id of a tab. */
function othersOf(owner: string, path: string): { name: string; tab: string }[] {
  const prefix = `draft.${owner}.`;
  return recalled(prefix)
    .filter((name) => name.slice(prefix.length).replace(/^[^/]*\./, "") === path)
    .map((name) => ({ name, tab: name.slice(prefix.length, -path.length).replace(/\.$/, "") }));
}

/** Is a tab with this id open? */
function isAlive(other: string): Promise<boolean> {
  if (!channel) return Promise.resolve(false);
  return new Promise((resolve) => {
    const finish = (answer: boolean): void => {
      channel.removeEventListener("message", listen);
      clearTimeout(timer);
      resolve(answer);
    };
    const listen = ({ data }: MessageEvent<Message>): void => {
      if ("answer" in data && data.answer === other) finish(true);
    };
    const timer = setTimeout(() => finish(false), ANSWER_MS);
    channel.addEventListener("message", listen);
    channel.postMessage({ question: other } satisfies Message);
  });
}
