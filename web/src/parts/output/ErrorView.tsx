import { ChevronRight, Lightbulb } from "lucide-react";
import { useState } from "react";
import type { ErrorAnswer, RaisedAnswer, StackFrameAnswer } from "../../api/schema";
import type { Position } from "../../state/calls";
import { baseOf, shown } from "../../state/tree";
import { classes } from "../../ui/classes";
import { withoutColours } from "./ansi";
import { styled, type Go } from "./LineView";

/** Removes IPython's rule, error name and last line, because the title already shows them. */
function withoutTitle(trace: string): string {
  const lines = trace.split("\n");
  const isRule = /^-{20,}$/.test(withoutColours(lines[0] ?? ""));
  const begin = isRule && /Traceback \(most recent call last\)$/.test(withoutColours(lines[1] ?? "")) ? 2 : 0;
  return lines.slice(begin).join("\n").trimEnd();
}

interface Props {
  error: ErrorAnswer;
  /** Without it, places are no links. */
  go?: Go | undefined;
  ours: number | null;
  /** Finds the line of a call in a file, and goes there. */
  trail?: Trail | undefined;
  /** The run has printed the traceback itself, so it is folded. */
  isTold: boolean;
}

export interface Trail {
  find: (frame: StackFrameAnswer) => Position | null;
  open: (position: Position) => void;
}

/** Why a run failed: what happened, what to do, the calls that led there, and on request the whole traceback. */
export function ErrorView({ error, go, ours, trail, isTold }: Props) {
  const raised = error.raised ?? [];
  const [open, setOpen] = useState(!isTold && raised.length === 0);
  const trace = withoutTitle(error.traceback_ansi ?? error.traceback ?? "");
  const title = error.name ? `${error.name}: ${error.message}` : error.message;
  return (
    <div role="alert" className="mx-2 my-1.5 overflow-hidden rounded-lg border border-danger/35 bg-danger-soft/50">
      <div className="flex items-start gap-2 px-2.5 py-1.5">
        <p className="max-h-72 min-w-0 flex-1 overflow-y-auto font-mono text-xs leading-[18px] font-semibold break-words whitespace-pre-wrap text-danger">
          {styled(title, "", go, ours)}
        </p>
        {trace && (
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="shrink-0 text-2xs leading-[18px] text-ink-soft hover:text-ink">
            {open ? "Hide traceback" : "Show traceback"}
          </button>
        )}
      </div>
      {error.hint && (
        <p className="flex items-start gap-1.5 px-2.5 pb-1.5 text-xs text-ink">
          <Lightbulb size={13} className="mt-0.5 shrink-0 text-warn" aria-hidden="true" />
          {error.hint}
        </p>
      )}
      {raised.length > 0 && (
        <div className="border-t border-danger/20 bg-surface/70 py-1.5">
          {raised.map((one, index) => (
            <Calls key={index} raised={one} trail={trail} isFirst={index === 0} />
          ))}
        </div>
      )}
      {trace && open && (
        <pre tabIndex={0} aria-label="Traceback" className="overflow-x-auto border-t border-danger/20 bg-surface/70 px-2.5 py-2 font-mono text-xs leading-[18px]">
          {trace.split("\n").map((line, index) => (
            <div key={index}>{line ? styled(line, "", go, ours) : "\u200b"}</div>
          ))}
        </pre>
      )}
    </div>
  );
}

const links: Record<string, string> = { cause: "Raised from", context: "Raised while handling" };

/** An exception of the chain, and its calls, the innermost first. */
function Calls({ raised, trail, isFirst }: { raised: RaisedAnswer; trail: Trail | undefined; isFirst: boolean }) {
  const groups = grouped(raised.frames);
  return (
    <>
      {!isFirst && (
        <p className="mt-1.5 border-t border-line px-2.5 pt-1.5 text-xs break-words text-ink-soft">
          {links[raised.link] ?? "After"}{" "}
          <span className="font-mono font-semibold text-ink">
            {raised.name}
            {raised.message && `: ${raised.message}`}
          </span>
        </p>
      )}
      <ol aria-label={isFirst ? "Calls, the innermost first" : `Calls of ${raised.name}`} className="text-xs">
        {groups.map((group, index) =>
          group[0]?.is_own ? (
            group.map((frame, at) => <Own key={`${index}.${at}`} frame={frame} trail={trail} isFailing={isFirst && isFirstOwn(raised, frame)} />)
          ) : (
            <Library key={index} frames={group} />
          ),
        )}
        {raised.omitted > 0 && (
          <li className="px-2.5 py-0.5 text-ink-faint">
            {raised.omitted.toLocaleString("en")} {raised.omitted === 1 ? "more call is" : "more calls are"} left out
          </li>
        )}
      </ol>
    </>
  );
}

const isFirstOwn = (raised: RaisedAnswer, frame: StackFrameAnswer): boolean => raised.frames.find((one) => one.is_own) === frame;

/** Neighbouring calls, in groups of the user's own code and of libraries. */
function grouped(frames: StackFrameAnswer[]): StackFrameAnswer[][] {
  const groups: StackFrameAnswer[][] = [];
  for (const frame of frames) {
    const last = groups.at(-1);
    if (last && last[0]?.is_own === frame.is_own) last.push(frame);
    else groups.push([frame]);
  }
  return groups;
}

function Own({ frame, trail, isFailing }: { frame: StackFrameAnswer; trail: Trail | undefined; isFailing: boolean }) {
  const position = trail?.find(frame) ?? null;
  const file = position?.cell ? null : (position?.path ?? frame.file);
  const where = `${file ? shown(file) : `Cell ${frame.cell ?? ""}`}, line ${position?.line ?? frame.line}`;
  return (
    <li className={classes("flex flex-wrap items-baseline gap-x-3 border-l-2 py-0.5 pr-2.5 pl-2", isFailing ? "border-danger" : "border-transparent")}>
      <span className="min-w-0">
        {trail && position ? (
          <button
            type="button"
            title={`Go to line ${position.line}`}
            onClick={() => trail.open(position)}
            className="cursor-pointer rounded-sm text-left font-medium break-all underline decoration-dotted underline-offset-2 hover:bg-hover hover:decoration-solid"
          >
            {where}
          </button>
        ) : (
          <span className="font-medium">{where}</span>
        )}
        {frame.function && <span className="text-ink-soft"> in {frame.function}</span>}
      </span>
      {frame.code && <code className={classes("min-w-0 flex-1 basis-40 truncate font-mono", isFailing ? "text-danger" : "text-ink-soft")}>{frame.code}</code>}
    </li>
  );
}

/** Calls within libraries: one line that unfolds. */
function Library({ frames }: { frames: StackFrameAnswer[] }) {
  const [open, setOpen] = useState(false);
  const names = [...new Set(frames.map((frame) => libraryOf(frame.file)))];
  return (
    <li className="border-l-2 border-transparent py-0.5 pr-2.5 pl-2">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex max-w-full items-center gap-0.5 text-ink-faint hover:text-ink">
        <ChevronRight size={12} className={classes("-ml-0.5 shrink-0 transition-transform", open && "rotate-90")} aria-hidden="true" />
        <span className="truncate">
          {frames.length} {frames.length === 1 ? "call" : "calls"} in {names.slice(0, 3).join(", ")}
          {names.length > 3 && " and others"}
        </span>
      </button>
      {open && (
        <ol className="mt-0.5 ml-1.5 border-l border-line pl-2.5">
          {frames.map((frame, index) => (
            <li key={index} className="flex flex-wrap items-baseline gap-x-3 py-0.5 text-ink-soft">
              <span className="min-w-0 break-all" title={frame.file}>
                {libraryOf(frame.file)}/{baseOf(frame.file)}, line {frame.line}
                {frame.function && <span className="text-ink-faint"> in {frame.function}</span>}
              </span>
              {frame.code && <code className="min-w-0 flex-1 basis-40 truncate font-mono">{frame.code}</code>}
            </li>
          ))}
        </ol>
      )}
    </li>
  );
}

/** The package that a file of a library belongs to. */
export function libraryOf(file: string): string {
  const inside = /\/(?:site-packages|dist-packages|node_modules|gems)\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1];
  if (inside) return inside.replace(/\.py$/, "");
  if (file.startsWith("node:")) return "Node";
  const standard = /\/lib\/python[\d.]+\/([^/]+)/.exec(file)?.[1];
  return standard ? standard.replace(/\.py$/, "") : baseOf(file).replace(/\.\w+$/, "") || "a library";
}
