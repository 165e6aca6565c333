import { Eraser, FileCode2, FileWarning, MoreHorizontal, Play, Plus, Square } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";
import { about, monacoLanguageOf, titleOf } from "../../state/languages";
import { offer } from "../../state/commands";
import { cursor } from "../../state/cursor";
import { documents, MAX_TEXT } from "../../state/documents";
import { bytes } from "../../state/format";
import { add, choose, clearOutputs, enqueue, interrupt, languageOfNotebook, notebooks, openNotebook, resume, runNotebook, type OpenNotebook } from "../../state/notebooks";
import { exportScript, exportNotebook } from "../../state/conversions";
import { useStore } from "../../state/store";
import { nameOf } from "../../state/tree";
import { showAsText } from "../../state/views";
import { Button, IconButton } from "../../ui/Button";
import { Menu } from "../../ui/Menu";
import { Empty } from "../../ui/states";
import { CellView } from "./CellView";
import { press } from "./keys";

/** A notebook as its cells. */
export default function NotebookView({ path }: { path: string }) {
  const isText = useStore(documents, (state) => state.byPath[path]?.phase === "ready");
  const size = useStore(documents, (state) => state.byPath[path]?.size ?? 0);
  const open = useStore(notebooks, (state) => state.byPath[path]);
  useEffect(() => {
    openNotebook(path);
    resume(path);
    cursor.set({ problems: { errors: 0, warnings: 0 } }); // those of the file that was shown before
    return documents.subscribe(() => void openNotebook(path));
  }, [path, isText]);
  if (!isText) return <TooLarge path={path} size={size} />;
  if (!open) return null;
  if (open.problem) return <Broken path={path} message={open.problem.message} hint={open.problem.hint} />;
  return <Cells path={path} open={open} />;
}

function Broken({ path, message, hint }: { path: string; message: string; hint: string }) {
  return (
    <Empty icon={<FileWarning size={24} />} title={message} action={<Button onClick={() => showAsText(path, true)}>Edit as text</Button>}>
      {hint}
    </Empty>
  );
}

function TooLarge({ path, size }: { path: string; size: number }) {
  const isLarge = size > MAX_TEXT;
  return (
    <Empty icon={<FileWarning size={24} />} title={isLarge ? `${nameOf(path)} has ${bytes(size)}, and notebooks of up to ${bytes(MAX_TEXT)} open here` : `${nameOf(path)} is not text`}>
      {isLarge ? "Clear some of its outputs, in Jupyter or with a program in this sandbox. You can also download it." : "A notebook is a JSON file in UTF-8. Download it and save it with Jupyter again."}
      <div className="mt-3">
        <Button onClick={() => exportNotebook(path)}>Download it</Button>
      </div>
    </Empty>
  );
}

function Cells({ path, open }: { path: string; open: OpenNotebook }) {
  const box = useRef<HTMLDivElement>(null);
  const { cells } = open.notebook;
  const language = languageOfNotebook(open.notebook);
  const shown = language === null ? "plaintext" : monacoLanguageOf(`cell${about(language)?.extensions[0] ?? ""}`);
  useEffect(() => {
    const isHere = () => box.current?.contains(document.activeElement) ?? false;
    return offer(
      { id: "notebook.next", title: "Notebook: run the cell and go to the next", group: "Run", keys: "shift+enter", run: () => runNotebook(path, "next"), when: isHere },
      {
        id: "notebook.insert",
        title: "Notebook: run the cell and add one below",
        group: "Run",
        keys: "alt+enter",
        run: () => {
          const now = openNotebook(path);
          const index = now?.notebook.cells.findIndex((cell) => cell.key === now.active) ?? -1;
          runNotebook(path, "here");
          add(path, index + 1, "code", true);
        },
        when: isHere,
      },
      { id: "notebook.script", title: "Notebook: save as a script with # %% cells", group: "Files", run: () => exportScript(path) },
      { id: "notebook.clear", title: "Notebook: clear all outputs", group: "Run", run: () => clearOutputs(path) },
    );
  }, [path]);
  return (
    <div className="flex h-full flex-col">
      <Toolbar path={path} open={open} language={language} />
      <div ref={box} data-notebook role="group" aria-label={`Cells of ${nameOf(path)}`} onKeyDown={(event) => press(event, path)} className="min-h-0 flex-1 overflow-y-auto px-1 pt-3 pb-24">
        {cells.map((cell, index) => (
          <CellView
            key={cell.key}
            path={path}
            cell={cell}
            index={index}
            language={shown}
            isActive={open.active === cell.key}
            isEditing={open.active === cell.key && open.isEditing}
            isQueued={open.queue.includes(cell.key)}
            run={open.runs[cell.key]}
          />
        ))}
        <div className="flex justify-center gap-2 pt-3">
          <Add label="Code" onClick={() => add(path, cells.length, "code", true)} />
          <Add label="Text" onClick={() => add(path, cells.length, "markdown", true)} />
        </div>
      </div>
    </div>
  );
}

const Add = ({ label, onClick }: { label: string; onClick: () => void }) => (
  <Button size="small" look="quiet" icon={<Plus size={12} />} onClick={onClick} aria-label={`Add ${label.toLowerCase()}`}>
    {label}
  </Button>
);

function Toolbar({ path, open, language }: { path: string; open: OpenNotebook; language: string | null }) {
  const { cells } = open.notebook;
  const isBusy = open.queue.length > 0 || Object.values(open.runs).some((run) => !run.isOver);
  const after = (): number => cells.findIndex((cell) => cell.key === open.active) + 1;
  const label = (text: string): ReactNode => <span className="max-md:sr-only">{text}</span>;
  return (
    <div role="toolbar" aria-label="Notebook" className="flex h-9 shrink-0 items-center gap-0.5 border-b border-line px-2">
      <Add label="Code" onClick={() => add(path, after(), "code", true)} />
      <Add label="Text" onClick={() => add(path, after(), "markdown", true)} />
      <span className="mx-1 h-4 w-px bg-line-strong" aria-hidden="true" />
      {isBusy ? (
        <Button size="small" look="quiet" className="text-danger" icon={<Square size={11} fill="currentColor" />} onClick={() => interrupt(path)} aria-label="Stop the notebook">
          {label("Stop")}
        </Button>
      ) : (
        <Button size="small" look="quiet" icon={<Play size={12} />} onClick={() => enqueue(path, cells.map((cell) => cell.key))} aria-label="Run all cells">
          {label("Run all")}
        </Button>
      )}
      <Button size="small" look="quiet" icon={<Eraser size={12} />} onClick={() => clearOutputs(path)} aria-label="Clear outputs">
        {label("Clear outputs")}
      </Button>
      <span className="ml-auto flex items-center gap-1 text-2xs text-ink-faint">
        {language === null ? (
          <span className="text-warn">No sessions in {open.notebook.languages[0]} here</span>
        ) : (
          <span className="max-md:hidden">{titleOf(language)}</span>
        )}
        <Menu
          align="end"
          trigger={
            <IconButton label="More about this notebook" size="small">
              <MoreHorizontal size={14} />
            </IconButton>
          }
          entries={[
            { label: "Download with outputs", onSelect: () => exportNotebook(path) },
            { label: "Save as a script with # %% cells", onSelect: () => exportScript(path), icon: <FileCode2 size={14} />, disabled: language === null },
            null,
            { label: "Run from here on", onSelect: () => enqueue(path, cells.slice(Math.max(0, after() - 1)).map((cell) => cell.key)) },
            { label: "To the first cell", onSelect: () => cells[0] && choose(path, cells[0].key) },
          ]}
        />
      </span>
    </div>
  );
}
