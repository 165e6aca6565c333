/** Shared state: a value, a setter and subscribers. */

import { useSyncExternalStore } from "react";

export interface Store<T> {
  get: () => T;
  /** Merges a change, or the result of a function of the value. */
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

/** Selects a part of a store for a component; equal selections must be the same object. */
export function useStore<T, S>(store: Store<T>, select: (value: T) => S): S {
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

/** An event with listeners; `on` returns a function that stops listening. */
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
