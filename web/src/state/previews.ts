/** Servers that programs in the sandbox have started: a preview is offered for each, as long as it listens. */

import * as beyond from "../api/beyond";
import type { PortAddress, PortAnswer } from "../api/schema";
import { app, isPhone } from "./app";
import { left, opened, sandbox, theSandbox } from "./sandbox";
import { createStore } from "./store";
import { note } from "./toasts";

export interface Preview {
  port: number;
  /** Its address, from the first time that it is shown. */
  address: PortAddress | null;
  problem: unknown;
  /** Counts reloads. */
  loads: number;
  /** Below this server's own address, for browsers that cannot reach the other. */
  isBelow: boolean;
}

interface Previews {
  /** By port, in order. */
  all: Preview[];
  /** The one beside the code; null: the output. */
  shown: number | null;
}

const nothing: Previews = { all: [], shown: null };
export const previews = createStore<Previews>(nothing);

const LOOK_S = 2; // a look costs the sandbox some milliseconds of CPU time
const TTL_S = 12 * 3600;
const REACHABLE = new Set(["127.0.0.1", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"]);
/** A server that stopped while it was shown is shown again when it comes back. */
let awaited: number | null = null;

function take(ports: PortAnswer[]): void {
  const found = [...new Set(ports.filter(({ address }) => REACHABLE.has(address)).map(({ port }) => port))];
  const { all, shown } = previews.get();
  const fresh = found.filter((port) => !all.some((one) => one.port === port));
  if (shown !== null && !found.includes(shown)) awaited = shown;
  previews.set({
    all: found.map((port) => all.find((one) => one.port === port) ?? { port, address: null, problem: null, loads: 0, isBelow: false }),
    shown: shown !== null && found.includes(shown) ? shown : null,
  });
  if (awaited !== null && fresh.includes(awaited)) show(awaited);
  else for (const port of fresh) note(`A server listens on port ${port}`, isPhone() ? "Its preview is in the output." : "Its preview is beside the output.");
}

function change(port: number, changes: Partial<Preview>): void {
  previews.set(({ all }) => ({ all: all.map((one) => (one.port === port ? { ...one, ...changes } : one)) }));
}

const of = (port: number): Preview | undefined => previews.get().all.find((one) => one.port === port);

/** Shows the preview of a port, or with null the output. */
export function show(port: number | null): void {
  awaited = null;
  previews.set({ shown: port });
  if (port === null) return;
  if (isPhone()) app.set({ view: "output" });
  if (!of(port)?.address) void request(port);
}

async function request(port: number): Promise<void> {
  const id = theSandbox();
  change(port, { problem: null });
  try {
    const address = await beyond.portAddress(id, port, TTL_S);
    if (sandbox.get().record?.id === id) change(port, { address, isBelow: !isReachable(address.url) });
  } catch (problem) {
    if (sandbox.get().record?.id === id) change(port, { problem });
  }
}

/** Loads a preview anew, under a new address if the old one has expired. */
export function reload(port: number): void {
  const preview = of(port);
  if (!preview) return;
  change(port, { loads: preview.loads + 1 });
  if (!preview.address || preview.address.expires * 1000 < Date.now()) void request(port);
}

export const showBelow = (port: number, isBelow: boolean): void => change(port, { isBelow });

const isLocal = (host: string): boolean => /^(localhost|127\.[\d.]+|\[::1\])$|\.localhost$/.test(host);

/** Names below `localhost` lead a browser to its own machine, which has to be the server's. */
export function isReachable(url: string, page = location.hostname): boolean {
  return !isLocal(new URL(url).hostname) || isLocal(page);
}

/** The address for a frame or a window. A proxy may add the encryption, of which the server does not know. */
export function addressOf({ address, isBelow }: Preview): string {
  if (!address) return "about:blank";
  if (isBelow) return address.path;
  return location.protocol === "https:" ? address.url.replace(/^http:/, "https:") : address.url;
}

opened.on(({ live }) => {
  const look = (): void => live.look(document.visibilityState === "visible" ? LOOK_S : 0);
  live.ports.on(take);
  document.addEventListener("visibilitychange", look);
  const stop = left.on(() => {
    document.removeEventListener("visibilitychange", look);
    stop();
  });
  look();
});

left.on(() => {
  awaited = null;
  previews.set(nothing);
});
