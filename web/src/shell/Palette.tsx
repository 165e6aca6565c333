import { useEffect, useMemo, useRef, useState } from "react";
import type { EntryAnswer } from "../api/schema";
import { app } from "../state/app";
import { commands, type Command } from "../state/commands";
import { openFile } from "../state/documents";
import { useStore } from "../state/store";
import { attempt } from "../state/toasts";
import { allFiles, shown, tree } from "../state/tree";
import { Dialog } from "../ui/Dialog";
import { Finder } from "../ui/Finder";
import { Keys } from "../ui/Keys";
import { rank } from "./rank";

const MOST = 60;

/** Finds commands and files by a few letters. */
export function Palette() {
  const open = useStore(app, (state) => state.palette);
  const chosen = useRef<Command | null>(null);
  const close = () => app.set({ palette: false });
  const choose = (command: Command) => {
    chosen.current = command;
    close();
  };
  // After the dialog has returned the focus: commands of the editor need it there, and what opens takes it.
  const perform = () => {
    chosen.current?.run();
    chosen.current = null;
  };
  return (
    <Dialog open={open} onClose={close} onClosed={perform} title="All commands" bare>
      {open && <Choice choose={choose} />}
    </Dialog>
  );
}

function Choice({ choose }: { choose: (command: Command) => void }) {
  const all = useStore(commands, (state) => state.all);
  const folders = useStore(tree, (state) => state.folders);
  const [deep, setDeep] = useState<EntryAnswer[]>([]);
  useEffect(() => {
    void allFiles().then(setDeep, () => undefined); // without them, the files of the folders that are open are offered
  }, []);
  const offered = useMemo(() => {
    const known = Object.values(folders)
      .flat()
      .filter((entry) => entry.kind === "file");
    const files: Command[] = [...new Set([...known, ...deep].map((entry) => entry.path))].map((path) => ({
      id: `open:${path}`,
      title: shown(path),
      group: "Open",
      run: () => attempt(() => openFile(path)),
    }));
    return [...all.filter((command) => command.id !== "palette" && command.id !== "palette.f1" && (command.when?.() ?? true)), ...files];
  }, [all, folders, deep]);
  return (
    <Finder
      find={(text) => found(offered, text)}
      choose={choose}
      keyOf={({ id }) => id}
      placeholder="Find a command or a file"
      label="Commands"
      nothing="No command or file matches."
      isLarge
    >
      {(command) => (
        <>
          <span className="w-12 shrink-0 text-2xs text-ink-faint">{command.group}</span>
          <span className="flex-1 truncate">{command.title}</span>
          {command.keys && <Keys keys={command.keys} />}
        </>
      )}
    </Finder>
  );
}

const groups = ["Run", "Open", "Files", "Page", "Editor"];
const order = (command: Command): number => (groups.indexOf(command.group) + groups.length) % groups.length;

function found(offered: Command[], text: string): Command[] {
  if (!text.trim()) return [...offered].sort((a, b) => order(a) - order(b)).slice(0, MOST);
  return offered
    .map((command) => ({ command, score: rank(`${command.group} ${command.title}`, text) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || order(a.command) - order(b.command))
    .slice(0, MOST)
    .map(({ command }) => command);
}
