import { ArrowDown, ArrowLeft, ArrowRight, ArrowUp, ClipboardPaste, Columns2, Copy, EllipsisVertical, Plus, Search, SquareTerminal, X } from "lucide-react";
import { useEffect, useLayoutEffect, useReducer, useRef, useState, type FormEvent, type KeyboardEvent, type ReactNode } from "react";
import "@xterm/xterm/css/xterm.css";
import "./terminal.css";
import { toggleTerminal } from "../../state/app";
import { keysOf } from "../../state/commands";
import { keep, recall } from "../../state/kept";
import { useStore } from "../../state/store";
import { activateTerminal, addTerminal, closeTerminal, others, split, terminals, type Tab } from "../../state/terminals";
import { attempt, note } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { KeyRow, type Key } from "../../ui/KeyRow";
import { Menu, type Entry } from "../../ui/Menu";
import { Empty, Loading } from "../../ui/states";
import { everyShell, shellOf, type PhoneKey } from "./shell";

/** Shells of the sandbox in tabs; two can be shown side by side. */
export function TerminalPanel() {
  const { phase, tabs, active, beside } = useStore(terminals, (state) => state);
  const [searching, setSearching] = useState(false);
  useEffect(() => {
    const { phase: now, tabs: there } = terminals.get();
    if (now === "ready" && there.length === 0) addTerminal();
  }, [phase]);
  const seen = tabs.filter((tab) => tab.key === active || tab.key === beside);
  return (
    <section aria-label="Terminal" className="flex h-full min-h-0 flex-col">
      <header className="flex h-9 shrink-0 items-center gap-1 border-b border-line pr-1.5 pl-1.5">
        <Tabs tabs={tabs} active={active} />
        <IconButton label="New terminal" size="small" onClick={() => addTerminal()}>
          <Plus size={14} />
        </IconButton>
        <span className="ml-auto flex items-center">
          <IconButton label="Search in this terminal" size="small" pressed={searching} onClick={() => setSearching(!searching)}>
            <Search size={13} />
          </IconButton>
          <IconButton label={beside === null ? "Split" : "Do not split"} size="small" pressed={beside !== null} className="max-md:hidden" onClick={split}>
            <Columns2 size={13} />
          </IconButton>
          <More active={active} />
          <IconButton label="Hide the terminal" keys={keysOf("terminal")} size="small" onClick={() => toggleTerminal(false)}>
            <X size={14} />
          </IconButton>
        </span>
      </header>
      {searching && <Find active={active} onClose={() => setSearching(false)} />}
      <div className="flex min-h-0 flex-1">
        {phase === "loading" ? (
          <Loading label="Reconnecting to your shells" />
        ) : seen.length === 0 ? (
          <div className="flex-1">
            <Empty icon={<SquareTerminal size={22} />} title="No terminal" action={<Button onClick={() => addTerminal()}>New terminal</Button>}>
              Open a shell in the sandbox. It sees the same files and keeps running while you are away.
            </Empty>
          </div>
        ) : (
          seen.map((tab, index) => <Screen key={tab.key} tab={tab} hasLine={index > 0} isActive={tab.key === active} />)
        )}
      </div>
      {seen.map((tab) => tab.key === active && <PhoneKeys key={tab.key} tab={tab} />)}
    </section>
  );
}

function Tabs({ tabs, active }: { tabs: Tab[]; active: number | null }) {
  const walk = (event: KeyboardEvent, index: number) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (event.key === "Delete") attempt(() => closeTerminal(tabs[index]?.key ?? -1));
    if (!step || !next) return;
    activateTerminal(next.key);
    document.getElementById(`terminal-tab-${next.key}`)?.focus();
  };
  if (tabs.length === 0) return <h2 className="pl-1.5 text-xs font-semibold text-ink-soft">Terminal</h2>;
  return (
    <div role="tablist" aria-label="Terminals" className="flex min-w-0 gap-0.5 overflow-x-auto [scrollbar-width:none]">
      {tabs.map((tab, index) => (
        <div key={tab.key} role="presentation" className={classes("group/tab flex h-7 shrink-0 items-center rounded-md pr-0.5 pl-2", tab.key === active ? "bg-hover text-ink" : "text-ink-soft hover:bg-hover/60")}>
          <button
            id={`terminal-tab-${tab.key}`}
            type="button"
            role="tab"
            aria-description="Press Delete to close"
            aria-selected={tab.key === active}
            tabIndex={tab.key === active ? 0 : -1}
            onClick={() => activateTerminal(tab.key)}
            onKeyDown={(event) => walk(event, index)}
            className="flex items-center gap-1.5 rounded text-xs"
          >
            <span
              aria-hidden="true"
              className={classes("size-1.5 rounded-full", tab.phase === "running" ? "bg-accent" : tab.phase === "over" ? "bg-ink-faint" : "breathe bg-warn")}
            />
            <span className="max-w-40 truncate">{tab.title}</span>
            {tab.phase !== "running" && <span className="sr-only">{tab.phase === "over" ? "ended" : "connecting"}</span>}
          </button>
          <button
            type="button"
            tabIndex={-1}
            aria-hidden="true" // a tab list may contain only tabs; Delete closes the focused one
            title={`Close ${tab.title}`}
            onClick={() => attempt(() => closeTerminal(tab.key))}
            className="flex size-5 items-center justify-center rounded hover:bg-hover hover:text-ink"
          >
            <X size={11} />
          </button>
        </div>
      ))}
    </div>
  );
}

/** Where a shell is drawn; the shell itself outlives it. */
function Screen({ tab, hasLine, isActive }: { tab: Tab; hasLine: boolean; isActive: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const container = place.current;
    if (!container) return;
    const shell = shellOf(tab.key, tab.command);
    container.append(shell.element);
    let isGone = false;
    void shell.show().then(() => {
      if (!isGone && terminals.get().active === tab.key) shell.focus();
    });
    const observer = new ResizeObserver(() => shell.fit());
    observer.observe(container);
    return () => {
      isGone = true;
      observer.disconnect();
      shell.element.remove();
    };
    // The command's id arrives later; the shell knows it then.
  }, [tab.key]);
  useEffect(() => {
    if (isActive) shellOf(tab.key, tab.command).focus();
  }, [isActive]);
  return (
    <div
      role="tabpanel"
      aria-label={tab.title}
      onFocus={() => terminals.get().beside === null || activateTerminal(tab.key)}
      className={classes("relative min-w-0 flex-1 overflow-hidden py-1.5 pr-1 pl-3", hasLine && "border-l border-line")}
    >
      <div ref={place} className="h-full w-full" />
      {tab.phase === "connecting" && tab.command !== null && (
        <p role="status" className="absolute top-2 right-4 rounded-md bg-warn-soft px-2 py-0.5 text-2xs text-warn">
          Coming back to the shell
        </p>
      )}
    </div>
  );
}

function PhoneKeys({ tab }: { tab: Tab }) {
  const [, again] = useReducer((count: number) => count + 1, 0);
  const shell = shellOf(tab.key, tab.command);
  useEffect(() => shell.ctrlChanged.on(again), [shell]);
  const key = (name: PhoneKey, label: string, shown: ReactNode): Key => ({ label, shown, press: () => shell.press(name) });
  return (
    <KeyRow
      label="Keys"
      keys={[
        key("Escape", "Escape", "Esc"),
        key("Tab", "Tab", "Tab"),
        {
          label: "Control, for the next key",
          shown: "Ctrl",
          isDown: shell.isCtrlDown,
          press: () => {
            shell.focus();
            shell.holdCtrl(!shell.isCtrlDown);
          },
        },
        key("Left", "Left", <ArrowLeft size={14} />),
        key("Up", "Up", <ArrowUp size={14} />),
        key("Down", "Down", <ArrowDown size={14} />),
        key("Right", "Right", <ArrowRight size={14} />),
      ]}
    />
  );
}

function More({ active }: { active: number | null }) {
  const [running, setRunning] = useState<{ command: string; title: string }[]>([]);
  const shell = () => everyShell().find((one) => one.key === active);
  const reader = recall("terminal.reader", false);
  const entries: Entry[] = [
    { label: "Copy the selection", icon: <Copy size={14} />, onSelect: () => attempt(async () => (await navigator.clipboard.writeText(shell()?.selection ?? ""), note("Copied"))) },
    { label: "Paste", icon: <ClipboardPaste size={14} />, onSelect: () => attempt(async () => shell()?.paste(await navigator.clipboard.readText())) },
    { label: "Clear", onSelect: () => shell()?.clear() },
    null,
    {
      label: "Screen reader mode",
      checked: reader,
      onSelect: () => {
        keep("terminal.reader", !reader);
        everyShell().forEach((one) => one.readAloud(!reader));
      },
    },
    ...(running.length > 0 ? ([null, "Already running", ...running.map((one) => ({ label: one.title, onSelect: () => void addTerminal(one.command, one.title) }))] as Entry[]) : []),
  ];
  return (
    <Menu
      align="end"
      trigger={
        <button
          type="button"
          aria-label="More terminal actions"
          onPointerDown={() => attempt(async () => setRunning(await others()))}
          className="inline-flex size-6 items-center justify-center rounded-md text-ink-soft hover:bg-hover hover:text-ink"
        >
          <EllipsisVertical size={14} />
        </button>
      }
      entries={entries}
    />
  );
}

function Find({ active, onClose }: { active: number | null; onClose: () => void }) {
  const [text, setText] = useState("");
  const [missing, setMissing] = useState(false);
  const find = (event: FormEvent) => {
    event.preventDefault();
    setMissing(!everyShell().find((shell) => shell.key === active)?.find(text));
  };
  return (
    <form onSubmit={find} className="flex items-center gap-2 border-b border-line bg-sunken px-3 py-1" role="search">
      <input
        autoFocus
        value={text}
        aria-label="Search in this terminal"
        placeholder="Search; Enter finds the previous match"
        onChange={(event) => {
          setText(event.target.value);
          setMissing(false);
        }}
        onKeyDown={(event) => event.key === "Escape" && onClose()}
        className="h-6 min-w-0 flex-1 bg-transparent font-mono text-xs outline-none placeholder:text-ink-faint"
      />
      {missing && <span role="status" className="text-2xs text-danger">Not found</span>}
    </form>
  );
}

export default TerminalPanel;
