/** Links that show the current code and outputs, frozen, to others. */

import * as beyond from "../api/beyond";
import type { ShareAnswer, ShareBody } from "../api/schema";
import { documents } from "./documents";
import { frozen } from "./frozen";
import { runs } from "./runs";
import { nameOf, sandbox } from "./sandbox";
import { createStore } from "./store";
import { shown } from "./tree";

interface Sharing {
  isOpen: boolean;
  phase: "idle" | "sharing" | "shared";
  made: ShareAnswer | null;
  /** All links of this key; null until loaded. */
  all: ShareAnswer[] | null;
  problem: unknown;
}

const nothing: Sharing = { isOpen: false, phase: "idle", made: null, all: null, problem: null };
export const sharing = createStore<Sharing>(nothing);

export const addressOf = (share: ShareAnswer): string => new URL(share.path ?? "", location.href).href;

export function openSharing(): void {
  sharing.set({ ...nothing, isOpen: true });
  beyond.shares().then(
    (all) => sharing.set({ all }),
    (problem: unknown) => sharing.set({ problem }),
  );
}

export const closeSharing = (): void => sharing.set({ isOpen: false });

/** Counts the files and runs that can be shared. */
export const counted = (): { files: number; runs: number } => ({
  files: Object.values(documents.get().byPath).filter((one) => one.phase === "ready").length,
  runs: runs.get().all.filter((run) => run.isOver).length,
});

export const usualTitle = (): string => {
  const { record } = sandbox.get();
  return record ? nameOf(record) : "Untitled";
};

function body(title: string, withCode: boolean, withRuns: boolean): ShareBody {
  const { open, byPath } = documents.get();
  const files = open.flatMap((path) => {
    const document = byPath[path];
    return document?.phase === "ready" ? [{ path: shown(path), text: document.text }] : [];
  });
  const over = runs.get().all.filter((run) => run.isOver);
  return {
    title,
    files: withCode ? files : [],
    runs: withRuns
      ? over.map((run) => ({
          title: run.asked.title.slice(0, 500),
          language: run.asked.language,
          code: withCode ? run.asked.code : "",
          time: run.began / 1000,
          duration: run.result?.duration ?? null,
          memory_peak: run.result?.memory_peak ?? null,
          exit_code: run.result?.exit_code ?? null,
          undone: run.undone,
          pieces: frozen(run.pieces),
        }))
      : [],
  };
}

/** Freezes the content of the page and creates a link to it. */
export async function share(title: string, withCode: boolean, withRuns: boolean): Promise<void> {
  sharing.set({ phase: "sharing", problem: null });
  try {
    const made = await beyond.share(body(title, withCode, withRuns));
    sharing.set(({ all }) => ({ phase: "shared", made, all: [made, ...(all ?? [])] }));
  } catch (problem) {
    sharing.set({ phase: "idle", problem });
  }
}

/** Revokes a link. */
export async function revoke(share: ShareAnswer): Promise<void> {
  await beyond.revokeShare(share.id);
  sharing.set(({ all, made, phase }) => ({
    all: (all ?? []).filter((one) => one.id !== share.id),
    ...(made?.id === share.id ? { made: null, phase: "idle" as const } : { phase }),
  }));
}
