/** A terminal: xterm.js, connected to a shell in the sandbox by a WebSocket that reconnects. */

import { FitAddon } from "@xterm/addon-fit";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal, type ITheme } from "@xterm/xterm";
import { of } from "../../api/cloche";
import { ReturningSocket } from "../../api/socket";
import { app, toggleTerminal } from "../../state/app";
import { recall } from "../../state/kept";
import { Signal } from "../../state/store";
import { left, theSandbox } from "../../state/sandbox";
import { changeTab, terminals } from "../../state/terminals";

type ShellMessage =
  | { type: "ready"; id: string; pid: number }
  | { type: "exit"; exit_code: number | null }
  | { type: "error"; message: string; hint: string };

const FONT = '"JetBrains Mono Variable", ui-monospace, Menlo, Consolas, monospace';
const encoder = new TextEncoder();

/** Keys that a phone's keyboard lacks. */
export type PhoneKey = "Escape" | "Tab" | "Up" | "Down" | "Right" | "Left";
const plainKeys = { Escape: "\x1b", Tab: "\t" };
const arrows = { Up: "A", Down: "B", Right: "C", Left: "D" };

export class Shell {
  /** The element in the page; it can be moved and keeps its content. */
  readonly element = document.createElement("div");
  private readonly terminal: Terminal;
  private readonly fitting = new FitAddon();
  private readonly sandbox = theSandbox();
  private socket: ReturningSocket | null = null;
  private command: string | null;
  private isReplaying = false;
  private opening: Promise<void> | null = null;
  private found = { text: "", line: -1 };
  /** Ctrl holds for the next key. */
  isCtrlDown = false;
  readonly ctrlChanged = new Signal<void>();

  constructor(readonly key: number, command: string | null) {
    this.command = command;
    this.element.className = "h-full w-full";
    this.terminal = new Terminal({
      fontFamily: FONT,
      fontSize: 12,
      lineHeight: 1.25,
      cursorBlink: true,
      scrollback: 10_000,
      allowProposedApi: false,
      macOptionIsMeta: true,
      screenReaderMode: recall("terminal.reader", false),
      theme: colours(),
    });
    this.terminal.loadAddon(this.fitting);
    this.terminal.loadAddon(new WebLinksAddon((_, address) => window.open(address, "_blank", "noopener,noreferrer")));
    this.terminal.attachCustomKeyEventHandler((event) => this.takesKey(event));
    this.terminal.onData((data) => this.type(encoder.encode(this.withCtrl(data))));
    this.terminal.onBinary((data) => this.type(Uint8Array.from(data, (one) => one.charCodeAt(0))));
    this.terminal.onResize(({ cols, rows }) => this.say({ type: "resize", columns: cols, rows }));
    this.terminal.onTitleChange((title) => title && changeTab(this.key, { title: title.slice(0, 60) }));
  }

  /** Draws the terminal, now that it is in the page, and connects it to its shell. */
  async show(): Promise<void> {
    this.opening ??= document.fonts.load(`12px ${FONT}`).then(() => undefined, () => undefined); // the terminal's size depends on its font
    await this.opening;
    if (!this.terminal.element) this.terminal.open(this.element);
    this.fit();
    if (!this.socket) this.join();
  }

  fit(): void {
    if (this.element.clientWidth > 40 && this.element.clientHeight > 20 && this.terminal.element) this.fitting.fit();
  }

  focus(): void {
    this.terminal.focus();
  }

  clear(): void {
    this.terminal.clear();
  }

  paint(): void {
    this.terminal.options.theme = colours();
  }

  readAloud(isOn: boolean): void {
    this.terminal.options.screenReaderMode = isOn;
  }

  get selection(): string {
    return this.terminal.getSelection();
  }

  paste(text: string): void {
    this.terminal.paste(text);
  }

  /** A key of the phone's row. */
  press(key: PhoneKey): void {
    this.focus();
    if (key === "Escape" || key === "Tab") this.type(encoder.encode(plainKeys[key]));
    else if (this.isCtrlDown) this.type(encoder.encode(`\x1b[1;5${arrows[key]}`));
    else this.type(encoder.encode(`\x1b${this.terminal.modes.applicationCursorKeysMode ? "O" : "["}${arrows[key]}`));
    this.holdCtrl(false);
  }

  holdCtrl(isDown: boolean): void {
    if (this.isCtrlDown === isDown) return;
    this.isCtrlDown = isDown;
    this.ctrlChanged.emit();
  }

  /** What was typed, with Ctrl if that is held. */
  private withCtrl(data: string): string {
    if (!this.isCtrlDown || !/^[@-_a-z ]$/.test(data)) return data;
    this.holdCtrl(false);
    return String.fromCharCode(data.toUpperCase().charCodeAt(0) & 31);
  }

  /** Searches upwards from the last match; returns false if there is none. */
  find(text: string): boolean {
    const buffer = this.terminal.buffer.active;
    const wanted = text.toLowerCase();
    if (!wanted) return false;
    if (this.found.text !== wanted || this.found.line < 0) this.found = { text: wanted, line: buffer.length };
    for (let step = 1; step <= buffer.length; step++) {
      const line = (this.found.line - step + 2 * buffer.length) % buffer.length;
      const at = buffer.getLine(line)?.translateToString(true).toLowerCase().lastIndexOf(wanted) ?? -1;
      if (at < 0) continue;
      this.found.line = line;
      this.terminal.select(at, line, wanted.length);
      this.terminal.scrollToLine(Math.max(0, line - Math.floor(this.terminal.rows / 2)));
      return true;
    }
    return false;
  }

  /** The content as text, for tests and screen readers. */
  get text(): string {
    const buffer = this.terminal.buffer.active;
    return Array.from({ length: buffer.length }, (_, line) => buffer.getLine(line)?.translateToString(true) ?? "").join("\n").trimEnd();
  }

  dispose(): void {
    this.socket?.close();
    this.terminal.dispose();
    this.element.remove();
  }

  private join(): void {
    this.socket = new ReturningSocket({
      address: () => {
        const { cols, rows } = this.terminal;
        const again = this.command === null ? "" : `&id=${encodeURIComponent(this.command)}`;
        return `${of(this.sandbox)}/terminal?columns=${cols}&rows=${rows}${again}`;
      },
      onConnected: (connected) => {
        if (!connected) return changeTab(this.key, { phase: "connecting" });
        if (this.command === null) return;
        // The server repeats earlier output; queries in it were answered long ago.
        this.terminal.reset();
        this.isReplaying = true;
      },
      onMessage: (data) => (typeof data === "string" ? this.take(JSON.parse(data) as ShellMessage) : this.draw(data)),
      onClosed: () => this.end(null),
    });
  }

  private draw(data: ArrayBuffer): void {
    const wasReplaying = this.isReplaying;
    this.terminal.write(new Uint8Array(data), () => {
      if (wasReplaying) this.isReplaying = false;
    });
  }

  private take(message: ShellMessage): void {
    switch (message.type) {
      case "ready":
        this.command = message.id;
        return changeTab(this.key, { command: message.id, phase: "running" });
      case "exit":
        return this.end(message.exit_code);
      case "error":
        return this.terminal.write(`\r\n\x1b[31m${message.message}\x1b[0m\r\n`);
    }
  }

  private end(code: number | null): void {
    const tab = terminals.get().tabs.find((one) => one.key === this.key);
    if (!tab || tab.phase === "over") return;
    changeTab(this.key, { phase: "over", exit: code });
    this.terminal.write(`\r\n\x1b[2mThe shell exited${code === null ? "" : ` with code ${code}`}.\x1b[0m\r\n`);
    this.terminal.options.cursorBlink = false;
  }

  private type(data: Uint8Array<ArrayBuffer>): void {
    if (!this.isReplaying) this.socket?.send(data);
  }

  private say(message: object): void {
    this.socket?.send(JSON.stringify(message));
  }

  /** The usual keys for copy and paste; Ctrl+C stops the running command, unless text is selected. */
  private takesKey(event: KeyboardEvent): boolean {
    if (event.type !== "keydown") return true;
    const key = event.key.toLowerCase();
    const mod = event.ctrlKey || event.metaKey;
    if (mod && key === "v") return false; // the browser pastes
    if (mod && key === "c" && (event.shiftKey || event.metaKey || this.terminal.hasSelection())) {
      event.preventDefault();
      if (this.terminal.hasSelection()) {
        void navigator.clipboard?.writeText(this.terminal.getSelection());
        this.terminal.clearSelection();
      }
      return false;
    }
    if (key === "escape" && event.shiftKey) {
      toggleTerminal(false); // leaves by keyboard: Escape and Tab belong to the shell
      return false;
    }
    return true;
  }
}

function colours(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;
  const plain = Object.fromEntries(names.map((name) => [name, colour(`ansi-${name}`)]));
  const bright = Object.fromEntries(names.map((name) => [`bright${name[0]?.toUpperCase()}${name.slice(1)}`, colour(name === "black" ? "ink-faint" : name === "white" ? "ink" : `ansi-${name}`)]));
  return {
    ...plain,
    ...bright,
    background: colour("surface"),
    foreground: colour("ink"),
    cursor: colour("accent"),
    cursorAccent: colour("surface"),
    selectionBackground: `${colour("accent")}44`,
  };
}

const shells = new Map<number, Shell>();

/** The shell of a tab: created when first shown, kept as long as the tab. */
export function shellOf(key: number, command: string | null): Shell {
  const known = shells.get(key);
  if (known) return known;
  const shell = new Shell(key, command);
  shells.set(key, shell);
  return shell;
}

export const everyShell = (): Shell[] => [...shells.values()];

terminals.subscribe(() => {
  const kept = new Set(terminals.get().tabs.map((tab) => tab.key));
  for (const [key, shell] of shells) {
    if (kept.has(key)) continue;
    shells.delete(key);
    shell.dispose();
  }
});

left.on(() => {
  for (const shell of shells.values()) shell.dispose();
  shells.clear();
});

app.subscribe(() => {
  // Deferred, because the other theme's tokens apply a moment later.
  requestAnimationFrame(() => everyShell().forEach((shell) => shell.paint()));
});
