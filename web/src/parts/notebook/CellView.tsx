import { ArrowDown, ArrowUp, Code2, Play, Square, Trash2, Type } from "lucide-react";
import { memo, Suspense, useEffect, useMemo, useReducer, useRef, useState, type MouseEvent, type ReactNode } from "react";
import { memberOf, membersOf } from "../../state/notebook/raw";
import { joined, type Cell, type CellKind } from "../../state/notebook/format";
import { choose, enqueue, interrupt, move, remove, turnInto } from "../../state/notebooks";
import type { Run } from "../../state/runs";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Spinner } from "../../ui/states";
import { lazily } from "../../ui/lazily";
import { RunView } from "../output/RunView";
import { MarkdownText } from "./MarkdownText";
import { Near } from "./Near";
import { SavedOutputs } from "./SavedOutputs";
import { Source } from "./Source";

const CellEditor = lazily(() => import("./CellEditor"));

const LINE = 21; // pixels
const OUTPUT = 80; // an estimate, until the outputs are drawn

interface Props {
  path: string;
  cell: Cell;
  index: number;
  language: string;
  isActive: boolean;
  isEditing: boolean;
  isQueued: boolean;
  run: Run | undefined;
}

const kindNames: Record<CellKind, string> = { code: "code", markdown: "text", raw: "raw text" };

/** One cell: its source, which becomes an editor, and its outputs. */
export const CellView = memo(function CellView({ path, cell, index, language, isActive, isEditing, isQueued, run }: Props) {
  const section = useRef<HTMLElement>(null);
  const clicked = useRef<{ x: number; y: number } | null>(null);
  const isGoing = useGoing(run);
  const isOpen = isActive && isEditing;
  const [isOver, setOver] = useState(false);
  const hasTools = isActive || isOver; // not in all of a thousand cells
  const lines = cell.source.split("\n").length;

  useEffect(() => {
    const element = section.current;
    if (!element || !isActive || isEditing) return;
    const { activeElement } = document;
    const isOurs = !activeElement || activeElement === document.body || element.closest("[data-notebook]")?.contains(activeElement);
    if (!isOurs || (element.contains(activeElement) && activeElement !== element)) return;
    element.focus({ preventScroll: true });
    element.scrollIntoView({ block: "nearest" });
  }, [isActive, isEditing, index]);

  const edit = (event: MouseEvent) => {
    if (window.getSelection()?.toString()) return; // somebody copies a part of it
    clicked.current = { x: event.clientX, y: event.clientY };
    choose(path, cell.key, true);
  };

  // Not `click`, and wherever the button is released: the text may get its colours, or move away, in between.
  const press = (event: MouseEvent) => {
    if (event.button === 0) window.addEventListener("mouseup", () => edit(event), { once: true });
  };

  const source = isOpen ? (
    <Suspense fallback={<Source text={cell.source} language={cell.kind === "code" ? language : "markdown"} cellKey={cell.key} />}>
      <CellEditor
        path={path}
        cellKey={cell.key}
        source={cell.source}
        language={cell.kind === "code" ? language : cell.kind === "markdown" ? "markdown" : "plaintext"}
        label={`Cell ${index + 1}, ${kindNames[cell.kind]}`}
        at={clicked.current}
      />
    </Suspense>
  ) : cell.kind === "markdown" ? (
    <div onDoubleClick={edit}>
      {cell.source.trim() ? <Rendered cell={cell} /> : <p className="px-2.5 py-1.5 text-ink-faint">An empty text. Press Enter to write.</p>}
    </div>
  ) : (
    <div onMouseDown={press} className="cursor-text">
      <Near height={lines * LINE + 12}>
        <Source text={cell.source} language={cell.kind === "code" ? language : "plaintext"} cellKey={cell.key} />
      </Near>
    </div>
  );

  return (
    <section
      ref={section}
      aria-label={`Cell ${index + 1}, ${kindNames[cell.kind]}`}
      aria-current={isActive}
      data-cell={cell.kind}
      data-state={isGoing ? "running" : isQueued ? "queued" : undefined}
      tabIndex={isActive ? 0 : -1}
      onFocus={() => !isActive && choose(path, cell.key)}
      onMouseEnter={() => setOver(true)}
      onMouseLeave={() => setOver(false)}
      className={classes(
        "relative grid grid-cols-[2.75rem_minmax(0,1fr)] gap-1 rounded-md py-1 pr-3 outline-offset-[-2px] max-md:grid-cols-[2rem_minmax(0,1fr)] max-md:pr-2",
        isActive && "bg-hover/40",
      )}
    >
      {isActive && <span className={classes("absolute inset-y-1 left-0 w-[3px] rounded-full", isEditing ? "bg-info" : "bg-accent")} />}
      <Gutter path={path} cell={cell} index={index} hasTools={hasTools} isOver={isOver} isQueued={isQueued} isGoing={isGoing} />
      <div className="min-w-0">
        <div
          className={classes(
            (cell.kind !== "markdown" || isOpen) && "rounded-md border bg-surface",
            isOpen ? "border-line-strong" : "border-line",
            cell.kind === "raw" && !isOpen && "border-dashed",
          )}
        >
          {source}
        </div>
        {cell.kind === "code" && <Outputs cell={cell} run={run} index={index} />}
      </div>
      {hasTools && <Actions path={path} cell={cell} />}
    </section>
  );
});

/** Is the cell's run under way? The outputs look after their own changes. */
function useGoing(run: Run | undefined): boolean {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    let wasOver = run?.isOver;
    return run?.changed.on(() => {
      if (run.isOver === wasOver) return;
      wasOver = run.isOver;
      again();
    });
  }, [run]);
  return run !== undefined && !run.isOver;
}

interface GutterProps {
  path: string;
  cell: Cell;
  index: number;
  hasTools: boolean;
  isOver: boolean;
  isQueued: boolean;
  isGoing: boolean;
}

/** The execution count, or a button to run or stop the cell. */
function Gutter({ path, cell, index, hasTools, isOver, isQueued, isGoing }: GutterProps) {
  if (cell.kind !== "code") return <span />;
  const count: ReactNode = isGoing ? <Spinner size={12} /> : isQueued ? "∗" : (cell.count ?? "\u00a0");
  return (
    <div className="relative flex h-8 items-center justify-end">
      <span
        data-figure="count"
        title={isQueued ? "Waits for the cells before it" : isGoing ? "Running" : "Execution count"}
        className={classes("flex font-mono text-2xs text-ink-faint", isOver && "invisible", hasTools && "max-md:invisible")}
      >
        [{count}]
      </span>
      {hasTools && (
        <span className={classes("absolute right-0 focus-within:opacity-100 max-md:opacity-100", !isOver && "opacity-0")}>
          {isGoing || isQueued ? (
            <IconButton label="Stop" size="small" className="text-danger" onClick={() => interrupt(path)}>
              <Square size={11} fill="currentColor" />
            </IconButton>
          ) : (
            <IconButton label={`Run cell ${index + 1}`} keys="mod+enter" size="small" onClick={() => enqueue(path, [cell.key])}>
              <Play size={12} fill="currentColor" />
            </IconButton>
          )}
        </span>
      )}
    </div>
  );
}

function Outputs({ cell, run, index }: { cell: Cell; run: Run | undefined; index: number }) {
  if (!run && cell.outputs.length === 0) return null;
  return (
    <div role="group" aria-label={`Output of cell ${index + 1}`} className="pt-0.5">
      {run ? (
        <RunView run={run} isUntitled />
      ) : (
        <Near height={OUTPUT}>
          <SavedOutputs outputs={cell.outputs} count={cell.count} />
        </Near>
      )}
    </div>
  );
}

function Rendered({ cell }: { cell: Cell }) {
  const attachments = useMemo(() => attachmentsOf(cell.raw), [cell.raw]);
  return (
    <Near height={cell.source.split("\n").length * LINE}>
      <MarkdownText source={cell.source} attachments={attachments} />
    </Near>
  );
}

/** The pictures that a cell keeps, as `data:` addresses. */
function attachmentsOf(raw: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, forms] of Object.entries(JSON.parse(memberOf(membersOf(raw), "attachments") ?? "{}") as Record<string, unknown>)) {
    if (typeof forms !== "object" || forms === null) continue;
    for (const [mime, data] of Object.entries(forms)) if (mime.startsWith("image/")) found[name] ??= `data:${mime};base64,${joined(data).replace(/\s/g, "")}`;
  }
  return found;
}

/** What can be done with a cell, beside it. */
function Actions({ path, cell }: { path: string; cell: Cell }) {
  const other: CellKind = cell.kind === "code" ? "markdown" : "code";
  return (
    <div
      role="group"
      aria-label="Cell"
      className="absolute -top-2 right-3 z-[2] flex rounded-md border border-line bg-raised p-0.5 shadow-sm"
    >
      <IconButton label={other === "code" ? "Make it code" : "Make it text"} keys={other === "code" ? "y" : "m"} size="small" onClick={() => turnInto(path, cell.key, other)}>
        {other === "code" ? <Code2 size={13} /> : <Type size={13} />}
      </IconButton>
      <IconButton label="Move up" keys="mod+shift+arrowup" size="small" onClick={() => move(path, cell.key, -1)}>
        <ArrowUp size={13} />
      </IconButton>
      <IconButton label="Move down" keys="mod+shift+arrowdown" size="small" onClick={() => move(path, cell.key, 1)}>
        <ArrowDown size={13} />
      </IconButton>
      <IconButton label="Delete the cell" keys="d+d" size="small" onClick={() => remove(path, cell.key)}>
        <Trash2 size={13} />
      </IconButton>
    </div>
  );
}
