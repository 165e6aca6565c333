import { Bookmark, BookmarkPlus, ChevronDown, CircleCheck, CircleX, GitBranch, History, RotateCcw, RotateCw, Trash2, Undo2 } from "lucide-react";
import { Suspense, useEffect, useState, type ReactNode } from "react";
import { keysOf, offer } from "../../state/commands";
import { ago } from "../../state/format";
import { inspector } from "../../state/inspector";
import { firstLine, lostInWords, type Point } from "../../state/moments";
import { sandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import {
  branchFrom,
  bringBackTyped,
  choose,
  compareWith,
  forgetMoment,
  goBack,
  keepMoment,
  keepReplaced,
  labelOf,
  leaveBranch,
  NOW,
  retry,
  timeline,
  undo,
  type Side,
} from "../../state/timeline";
import { nameOf } from "../../state/tree";
import { Button, IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Ask } from "../../ui/Dialog";
import { Menu } from "../../ui/Menu";
import { Pane } from "../../ui/Pane";
import { Empty, Failed, Loading, Spinner } from "../../ui/states";
import { walk } from "../../ui/walk";
import { lazily } from "../../ui/lazily";

const Comparison = lazily(() => import("./Comparison"));

/** Runs and checkpoints, newest first; each point can be restored. */
export function TimelinePanel() {
  const { phase, problem, points, busy } = useStore(timeline, (state) => state);
  const [naming, setNaming] = useState(false);
  return (
    <Pane
      title="Timeline"
      actions={
        <>
          <IconButton label="Save a checkpoint" keys={keysOf("timeline.keep")} size="small" disabled={busy !== ""} onClick={() => setNaming(true)}>
            <BookmarkPlus size={14} />
          </IconButton>
          <IconButton label="Undo the last run" keys={keysOf("timeline.undo")} size="small" disabled={busy !== ""} onClick={undo}>
            {busy === "undo" ? <Spinner size={13} /> : <Undo2 size={14} />}
          </IconButton>
        </>
      }
    >
      {phase === "loading" || phase === "none" ? (
        <Loading label="Loading the timeline" />
      ) : phase === "failed" ? (
        <Failed problem={problem} retry={retry} />
      ) : (
        <div className="flex h-full flex-col">
          <Notices />
          {points.length === 0 ? (
            <Empty icon={<History size={22} />} title="Nothing to go back to yet">
              Every run in the session becomes a point here, with the variables and files from before it. Going back takes
              milliseconds.
            </Empty>
          ) : (
            <Points points={points} />
          )}
          <Explained />
        </div>
      )}
      <Ask
        open={naming}
        title="Save a checkpoint"
        about="Saves the variables and files as they are now. Named checkpoints stay; the oldest unnamed ones are removed when space runs out."
        label="Name"
        initial=""
        action="Save"
        onClose={() => setNaming(false)}
        onAnswer={keepMoment}
      />
    </Pane>
  );
}

/** Timeline commands that work anywhere in the page, and the comparison dialog. */
export function TimelineEverywhere() {
  const isComparing = useStore(timeline, (state) => state.comparison !== null);
  const [naming, setNaming] = useState(false);
  useEffect(() => {
    const isOpen = () => sandbox.get().phase === "open";
    return offer(
      { id: "timeline.undo", title: "Undo the last run", group: "Timeline", keys: "mod+shift+x", run: undo, when: isOpen },
      { id: "timeline.keep", title: "Save a checkpoint", group: "Timeline", keys: "mod+shift+s", run: () => setNaming(true), when: isOpen },
    );
  }, []);
  return (
    <>
      {isComparing && (
        <Suspense fallback={null}>
          <Comparison />
        </Suspense>
      )}
      <Ask open={naming} title="Save a checkpoint" label="Name" action="Save" onClose={() => setNaming(false)} onAnswer={keepMoment} />
    </>
  );
}

function Notices() {
  const { chosen, replaced } = useStore(timeline, (state) => state);
  const context = useStore(inspector, (state) => state.context);
  return (
    <>
      {context && (
        <Notice icon={<GitBranch size={13} />} action="Return to the main line" onAction={leaveBranch}>
          Runs go to the branch <code className="font-mono">{context}</code>.
        </Notice>
      )}
      {chosen && (
        <Notice icon={<Bookmark size={13} />} action="Cancel" onAction={() => choose(null)}>
          Choose a point to compare <b className="font-medium">{chosen.label}</b> with.
        </Notice>
      )}
      {replaced.length > 0 && (
        <Notice icon={<RotateCcw size={13} />} action="Restore my text" onAction={bringBackTyped} onClose={keepReplaced}>
          {replaced.length === 1 ? `${nameOf(replaced[0]?.path ?? "")} in the editor changed back, too.` : `${replaced.length} files in the editor changed back, too.`}
        </Notice>
      )}
    </>
  );
}

interface NoticeProps {
  icon: ReactNode;
  action: string;
  onAction: () => void;
  onClose?: () => void;
  children: ReactNode;
}

function Notice({ icon, action, onAction, onClose, children }: NoticeProps) {
  return (
    <div role="status" className="flex shrink-0 items-start gap-2 border-b border-line bg-accent-soft px-3 py-2 text-xs">
      <span className="mt-0.5 text-accent">{icon}</span>
      <div className="min-w-0 flex-1">
        <p className="break-words">{children}</p>
        <div className="mt-1 flex gap-3">
          <button type="button" className="font-medium text-accent hover:underline" onClick={onAction}>
            {action}
          </button>
          {onClose && (
            <button type="button" className="text-ink-soft hover:underline" onClick={onClose}>
              It is fine
            </button>
          )}
        </div>
      </div>
    </div>
  );
}

function Points({ points }: { points: Point[] }) {
  const [open, setOpen] = useState<string | null>(null);
  const busy = useStore(timeline, (state) => state.busy);
  const newestFirst = [...points].reverse();
  const canUndo = newestFirst.find((point) => point.kind === "run" && !point.undone && point.checkpoint) !== undefined;
  return (
    <ol aria-label="Points in time, newest first" onKeyDown={walk} className="min-h-0 flex-1 overflow-y-auto py-2 pr-2 pl-3">
      <li className="relative flex items-center gap-2.5 pb-2.5 pl-px text-xs">
        <Rail />
        <span className="relative z-[1] ml-[3px] size-2.5 rounded-full bg-accent ring-4 ring-accent-soft" aria-hidden="true" />
        <span className="ml-[3px] flex-1 font-medium">Now</span>
        {canUndo && (
          <Button size="small" disabled={busy !== ""} icon={busy === "undo" ? <Spinner size={12} /> : <Undo2 size={12} />} onClick={undo}>
            Undo
          </Button>
        )}
      </li>
      {newestFirst.map((point, index) => (
        <Row
          key={point.key}
          point={point}
          isLast={index === newestFirst.length - 1}
          isOpen={open === point.key}
          onToggle={() => setOpen(open === point.key ? null : point.key)}
        />
      ))}
    </ol>
  );
}

function Rail({ isLast = false }: { isLast?: boolean }) {
  return <span aria-hidden="true" className={classes("absolute top-2 left-[8px] w-px bg-line-strong", isLast ? "h-2" : "-bottom-2")} />;
}

const words: Record<Point["kind"], string> = {
  run: "Run",
  checkpoint: "Checkpoint",
  restore: "Went back",
  undo: "Undone",
  branch: "Branched",
  restart: "Restarted",
};

function iconOf(point: Point): ReactNode {
  const size = 14;
  switch (point.kind) {
    case "run":
      return point.error ? <CircleX size={size} className="text-danger" /> : <CircleCheck size={size} className="text-accent" />;
    case "checkpoint":
      return <Bookmark size={size} className="text-accent" fill="currentColor" />;
    case "restore":
    case "undo":
      return <Undo2 size={size} className="text-ink-faint" />;
    case "branch":
      return <GitBranch size={size} className="text-info" />;
    case "restart":
      return <RotateCw size={size} className="text-ink-faint" />;
  }
}

function titleOf(point: Point): string {
  switch (point.kind) {
    case "run":
      return firstLine(point.code) || "Empty run";
    case "checkpoint":
      return labelOf(point);
    case "restore":
      return point.name.startsWith("checkpoint-") ? "To the state before a run" : `To “${point.name}”`;
    case "undo":
      return "The last run was undone";
    case "branch":
      return point.context;
    case "restart":
      return `${point.context || "The session"} restarted`;
  }
}

/** The side of a comparison that a point stands for. */
const sideOf = (point: Point): Side => ({
  checkpoint: point.checkpoint?.id ?? null,
  label: point.kind === "run" ? `before “${firstLine(point.code).slice(0, 40)}”` : `“${labelOf(point)}”`,
});

function Row({ point, isLast, isOpen, onToggle }: { point: Point; isLast: boolean; isOpen: boolean; onToggle: () => void }) {
  const chosen = useStore(timeline, (state) => state.chosen);
  const isMain = point.kind === "run" || point.kind === "checkpoint";
  const canCompare = chosen !== null && point.checkpoint !== null && point.checkpoint.id !== chosen.checkpoint;
  const click = () => (canCompare && chosen ? compareWith(sideOf(point), chosen) : onToggle());
  return (
    <li className="relative pb-1">
      <Rail isLast={isLast} />
      <div className="flex items-start gap-2.5">
        <span className={classes("relative z-[1] mt-1.5 shrink-0 rounded-full bg-surface p-px", point.undone && "grayscale")}>{iconOf(point)}</span>
        <div className="min-w-0 flex-1">
          <button
            type="button"
            data-walk
            aria-expanded={isOpen}
            onClick={click}
            className={classes("flex w-full min-w-0 items-baseline gap-2 rounded-md px-1.5 py-1 text-left hover:bg-hover", isOpen && "bg-hover")}
          >
            <span className="sr-only">{words[point.kind]}{point.error ? ", failed" : ""}: </span>
            <span className={classes("min-w-0 flex-1 truncate text-xs", point.kind === "run" && "font-mono", !isMain && "text-ink-soft", point.undone && "text-ink-faint line-through")}>
              {titleOf(point)}
            </span>
            <span className="shrink-0 text-2xs text-ink-faint">{ago(point.time * 1000)}</span>
          </button>
          {isOpen && <Details point={point} />}
        </div>
      </div>
    </li>
  );
}

function Details({ point }: { point: Point }) {
  const busy = useStore(timeline, (state) => state.busy);
  const { checkpoint } = point;
  const lost = checkpoint ? lostInWords(checkpoint.lost) : "";
  const isRun = point.kind === "run";
  const label = isRun ? "Restored the state before that run" : `Restored “${labelOf(point)}”`;
  return (
    <div className="appear flex flex-col gap-2 px-1.5 pt-1 pb-2">
      {point.code && (
        <pre tabIndex={0} aria-label="The code of this run" className="max-h-32 overflow-auto rounded-md bg-sunken p-2 font-mono text-2xs whitespace-pre">
          {point.code.slice(0, 4000).trimEnd()}
        </pre>
      )}
      <p className="text-2xs text-ink-faint">
        {new Date(point.time * 1000).toLocaleTimeString()}
        {point.context && point.context !== "python" && ` in ${point.context}`}
        {point.error && `, ended with ${point.error}`}
        {point.undone && ", undone since"}
      </p>
      {checkpoint ? (
        <>
          <div className="flex flex-wrap gap-1.5">
            <Button size="small" look="primary" disabled={busy !== ""} icon={busy === "restore" ? <Spinner size={12} /> : <Undo2 size={12} />} onClick={() => goBack(checkpoint, label)}>
              {isRun ? "Restore the state before" : "Restore"}
            </Button>
            <Button size="small" disabled={busy !== ""} icon={<GitBranch size={12} />} onClick={() => branchFrom(checkpoint)}>
              Branch
            </Button>
            <Menu
              trigger={
                <Button size="small">
                  Compare <ChevronDown size={12} />
                </Button>
              }
              entries={[
                { label: "With the current state", onSelect: () => compareWith(sideOf(point), NOW) },
                { label: "With another point", onSelect: () => choose(sideOf(point)) },
              ]}
            />
            {!isRun && (
              <IconButton label={`Delete ${labelOf(point)}`} size="small" onClick={() => forgetMoment(checkpoint)}>
                <Trash2 size={13} />
              </IconButton>
            )}
          </div>
          {lost && <p className="text-2xs text-warn">Not restored: {lost}.</p>}
        </>
      ) : (
        (isRun || point.kind === "checkpoint") && (
          <p className="text-2xs text-ink-soft">
            {point.undone
              ? "It was undone, and its checkpoint is gone."
              : isRun
                ? "There is no checkpoint from before this run. Only Python runs have one, and the oldest are removed."
                : "This checkpoint was deleted, or removed to make room for newer ones."}
          </p>
        )
      )}
    </div>
  );
}

function Explained() {
  return (
    <details className="shrink-0 border-t border-line px-3 py-2 text-2xs text-ink-soft [&[open]>summary]:mb-1.5">
      <summary className="cursor-pointer rounded text-ink-faint hover:text-ink">What is restored, and what is not</summary>
      <ul className="flex list-disc flex-col gap-1 pl-4">
        <li>Restored: Python’s variables, imports and open files, and everything under /sandbox.</li>
        <li>JavaScript, Bash and R restart, because their state cannot be copied.</li>
        <li>Threads, sockets and child processes are lost. /tmp does not change.</li>
        <li>Undo keeps what you typed in the editor. Restoring a point replaces files, and offers your text back.</li>
        <li>A branch has the variables of its point and shares the files.</li>
      </ul>
    </details>
  );
}
