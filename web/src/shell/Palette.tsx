import { Search } from "lucide-react";
import { useMemo, useRef, useState, type KeyboardEvent } from "react";
import { app } from "../state/app";
import { commands, type Command } from "../state/commands";
import { openFile } from "../state/documents";
import { useStore } from "../state/store";
import { attempt } from "../state/toasts";
import { shown, tree } from "../state/tree";
import { classes } from "../ui/classes";
import { Dialog } from "../ui/Dialog";
import { Keys } from "../ui/Keys";
import { rank } from "./rank";

const MOST = 60;

/** Finds commands and files by a few letters. */
export function Palette() {
  const open = useStore(app, (state) => state.palette);
  const close = () => app.set({ palette: false });
  return (
    <Dialog open={open} onClose={close} title="All commands" bare>
      {open && <Finder onDone={close} />}
    </Dialog>
  );
}

function Finder({ onDone }: { onDone: () => void }) {
  const all = useStore(commands, (state) => state.all);
  const folders = useStore(tree, (state) => state.folders);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const found = useMemo(() => {
    const files: Command[] = Object.values(folders)
      .flat()
      .filter((entry) => entry.kind === "file")
      .map((entry) => ({ id: `open:${entry.path}`, title: shown(entry.path), group: "Open", run: () => attempt(() => openFile(entry.path)) }));
    const offered = all.filter((command) => command.id !== "palette" && command.id !== "palette.f1" && (command.when?.() ?? true));
    const groups = ["Run", "Open", "Files", "Page", "Editor"];
    const order = (command: Command) => (groups.indexOf(command.group) + groups.length) % groups.length;
    if (!text.trim()) return [...offered, ...files].sort((a, b) => order(a) - order(b)).slice(0, MOST);
    return [...offered, ...files]
      .map((command) => ({ command, score: rank(`${command.group} ${command.title}`, text) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score || order(a.command) - order(b.command))
      .slice(0, MOST)
      .map(({ command }) => command);
  }, [all, folders, text]);

  const perform = (command: Command | undefined) => {
    if (!command) return;
    onDone();
    // After the dialog has returned the focus, which commands of the editor need.
    setTimeout(command.run, 30);
  };
  const move = (to: number) => {
    const next = Math.max(0, Math.min(found.length - 1, to));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") move(at + 1);
    else if (event.key === "ArrowUp") move(at - 1);
    else if (event.key === "Enter") perform(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className="flex items-center gap-2.5 border-b border-line px-4">
        <Search size={15} className="text-ink-faint" aria-hidden="true" />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[at] ? `palette-${at}` : undefined}
          aria-label="Find a command or a file"
          placeholder="Find a command or a file"
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKey}
          spellCheck={false}
          className="h-11 flex-1 bg-transparent text-sm outline-none placeholder:text-ink-faint"
        />
      </div>
      <ul ref={list} id="palette-list" role="listbox" aria-label="Commands" className="min-h-0 overflow-y-auto p-1.5">
        {found.map((command, index) => (
          <li
            key={command.id}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseMove={() => setAt(index)}
            onClick={() => perform(command)}
            className={classes("flex cursor-pointer items-center gap-3 rounded-md px-2.5 py-1.5", index === at && "bg-hover")}
          >
            <span className="w-12 shrink-0 text-2xs text-ink-faint">{command.group}</span>
            <span className="flex-1 truncate">{command.title}</span>
            {command.keys && <Keys keys={command.keys} />}
          </li>
        ))}
        {found.length === 0 && <li className="px-3 py-6 text-center text-ink-faint">No command or file matches.</li>}
      </ul>
    </>
  );
}
