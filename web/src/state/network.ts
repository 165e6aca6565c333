/** What the sandbox may reach, and what its programs tried to reach. */

import * as api from "../api/cloche";
import type { NetworkAttemptAnswer, NetworkPolicyAnswer, NetworkSettingsAnswer } from "../api/schema";
import { visible } from "./names";
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
export const allowOnly = (rules: string[]): Promise<void> => replace(() => rules);

/** The narrowest rule that covers a host on a port. */
export function ruleFor(host: string, port: number): string {
  if (port === 80 || port === 443) return host;
  return host.includes(":") ? `[${host}]/128:${port}` : `${host}:${port}`;
}

/** A policy in a sentence. */
export function inWords({ allow: rules, deny }: NetworkSettingsAnswer): string {
  if (rules.length === 0) return "Programs in this sandbox can reach nothing.";
  const parts = [
    ...(rules.includes("public") ? ["every public host on the usual ports"] : []),
    ...(rules.includes("packages") ? ["the package indexes of pip and npm"] : []),
  ];
  const others = rules.filter((one) => one !== "public" && one !== "packages");
  if (others.length > 0) parts.push(others.length === 1 ? visible(others[0] ?? "") : `${others.length} hosts or ranges`);
  const but = deny.length > 0 ? ", but not what is denied" : "";
  return `Programs in this sandbox can reach ${parts.join(" and ")}${but}.`;
}

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
