/** All commands. The palette lists them, and one listener finds them by their keys. */

import { createStore } from "./store";

export interface Command {
  id: string;
  title: string;
  group: string;
  /** As in "mod+shift+p"; mod is Ctrl, or ⌘ on a Mac. */
  keys?: string;
  run: () => void;
  /** Is it available now? */
  when?: () => boolean;
}

export const commands = createStore<{ all: Command[] }>({ all: [] });

/** Registers commands; the returned function removes them. */
export function offer(...added: Command[]): () => void {
  const ids = new Set(added.map((command) => command.id));
  commands.set(({ all }) => ({ all: [...all.filter((command) => !ids.has(command.id)), ...added] }));
  return () => commands.set(({ all }) => ({ all: all.filter((command) => !added.includes(command)) }));
}

export function keysOf(id: string): string | undefined {
  return commands.get().all.find((command) => command.id === id)?.keys;
}

export function perform(id: string): void {
  const command = commands.get().all.find((one) => one.id === id);
  if (command && (command.when?.() ?? true)) command.run();
}

/** The pressed keys in the notation of commands; empty for modifiers alone. */
export function pressed(event: KeyboardEvent): string {
  const key = event.code === "Backquote" ? "backquote" : event.key.toLowerCase();
  if (["control", "shift", "alt", "meta"].includes(key)) return "";
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("mod");
  if (event.shiftKey) parts.push("shift");
  if (event.altKey) parts.push("alt");
  return [...parts, key].join("+");
}

/** In a terminal, Ctrl, Alt and F keys are the shell's; with Shift they are ours, and so is the key that hides it. */
const belongsToShell = (event: KeyboardEvent, name: string): boolean =>
  event.target instanceof Element && event.target.closest(".xterm") !== null && !name.includes("shift+") && name !== "mod+backquote";

/** Listens for keys before the editor does; returns a function that stops it. */
export function listenForKeys(): () => void {
  const listener = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = pressed(event);
    if (!name || belongsToShell(event, name)) return;
    const command = commands.get().all.find((one) => one.keys === name && (one.when?.() ?? true));
    if (!command) return;
    event.preventDefault();
    event.stopPropagation();
    command.run();
  };
  window.addEventListener("keydown", listener, { capture: true });
  return () => window.removeEventListener("keydown", listener, { capture: true });
}
