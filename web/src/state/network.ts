/** What the sandbox may reach, and what its programs tried to reach. */

import * as api from "../api/cloche";
import type { NetworkAttemptAnswer, NetworkPolicyAnswer } from "../api/schema";
import { isPreset } from "./networkRules";
import { runEnded } from "./runs";
import { left, opened, theSandbox } from "./sandbox";
import { createStore } from "./store";

interface Network {
  phase: "none" | "ready" | "failed";
  problem: unknown;
  policy: NetworkPolicyAnswer | null;
  /** Oldest first. */
  attempts: NetworkAttemptAnswer[];
}

const nothing: Network = { phase: "none", problem: null, policy: null, attempts: [] };
const SOON_MS = 120;
const AGAIN_MS = 3000; // programs in terminals and servers connect without any event
const OPEN = 100; // latest attempts that are read again: their connections may still be open
const PAGE = 1000;
const KEPT = 2000;
export const network = createStore<Network>(nothing);

let watchers = 0;
let timer = 0;
let asked = 0; // counts requests: the answer to an older one is dropped

/** Keeps the list up to date while the panel is visible; returns a function that stops it. */
export function watchNetwork(): () => void {
  watchers++;
  void refresh();
  const repeated = window.setInterval(() => {
    if (!document.hidden && isOpen()) void refresh();
  }, AGAIN_MS);
  return () => {
    watchers--;
    clearInterval(repeated);
  };
}

export async function refresh(): Promise<void> {
  const number = ++asked;
  try {
    const id = theSandbox();
    const policy = await api.network(id);
    const known = network.get().attempts;
    let since = Math.max(0, (known.at(-1)?.number ?? 0) - OPEN);
    const attempts = known.filter((one) => one.number <= since);
    for (;;) {
      const page = await api.networkLog(id, since);
      attempts.push(...page);
      if (page.length < PAGE) break;
      since = page.at(-1)?.number ?? since;
    }
    if (number === asked) network.set({ phase: "ready", problem: null, policy, attempts: attempts.slice(-KEPT) });
  } catch (problem) {
    if (number === asked) network.set({ phase: "failed", problem });
  }
}

/** Allows more, or less: `change` gets the rules that were asked for. */
async function replace(change: (rules: string[]) => string[]): Promise<void> {
  const id = theSandbox();
  // As it is now, and not as the panel shows it: another client may have changed it.  Secrets keep their values.
  const { requested } = await api.network(id);
  const policy = await api.replaceNetwork(id, { ...requested, allow: change(requested.allow) });
  network.set({ policy });
}

export const allow = (rule: string): Promise<void> => replace((rules) => [...rules.filter((one) => one !== rule), rule]);
export const takeBack = (rule: string): Promise<void> => replace((rules) => rules.filter((one) => one !== rule));

/** Chooses a preset, or hosts by name: the hosts that are named stay, the presets do not. */
export const choosePreset = (preset: "none" | "packages" | "public"): Promise<void> => replace(() => (preset === "none" ? [] : [preset]));
export const withoutPresets = (): Promise<void> => replace((rules) => rules.filter((rule) => !isPreset(rule)));

const isOpen = (): boolean => (network.get().policy?.effective.allow.length ?? 0) > 0;

function soon(): void {
  clearTimeout(timer);
  if (watchers > 0) timer = window.setTimeout(() => void refresh(), SOON_MS);
}

runEnded.on(soon);
opened.on(({ live }) => {
  live.happened.on(({ kind }) => {
    if (kind === "network") soon();
  });
  soon();
});
left.on(() => {
  asked++;
  network.set(nothing);
});
