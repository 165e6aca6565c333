/** Parts of the page that are loaded when they are first shown. */

import { lazy, type ComponentType, type LazyExoticComponent } from "react";
import { keep, recall } from "../state/kept";

const TRIES_MS = 1500;
const SOON_MS = 20_000;

/** A lazy component. If the server is away when it is wanted, the page waits for it and is loaded again: a browser does
not fetch a module twice, and a new server may have others. Everything typed is in the browser's storage. */
export function lazily<Props extends object>(load: () => Promise<{ default: ComponentType<Props> }>): LazyExoticComponent<ComponentType<Props>> {
  return lazy(async () => {
    try {
      return await load();
    } catch (problem) {
      await reached();
      if (Date.now() - recall("reloaded", 0) < SOON_MS) throw problem; // that did not help: the person is told
      keep("reloaded", Date.now());
      location.reload();
      return new Promise<never>(() => undefined);
    }
  });
}

/** Resolves when the server answers. */
async function reached(): Promise<void> {
  for (;;) {
    const isThere = await fetch("/v1/version").then(({ status }) => status < 500, () => false);
    if (isThere) return;
    await new Promise((resolve) => setTimeout(resolve, TRIES_MS));
  }
}
