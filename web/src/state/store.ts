/** State that distant parts share: a value, a way to change it, and who wants to know. */

import { useSyncExternalStore } from "react";

export interface Store<T> {
  get: () => T;
  /** Merge a change, or what a function makes of the value. */
  set: (change: Partial<T> | ((was: T) => Partial<T>)) => void;
  subscribe: (listener: () => void) => () => void;
}

export function createStore<T extends object>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(change) {
      const merged = { ...value, ...(typeof change === "function" ? change(value) : change) };
      value = merged;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** A part of a store, for a component; the selection must be the same object as long as it means the same. */
export function useStore<T, S>(store: Store<T>, select: (value: T) => S): S {
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

/** Listeners of something that happens: each gets a way to stop listening. */
export class Signal<T> {
  private readonly listeners = new Set<(value: T) => void>();

  on(listener: (value: T) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  emit(value: T): void {
    for (const listener of [...this.listeners]) listener(value);
  }
}
