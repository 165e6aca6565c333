import { ChevronRight, CircleCheck, CircleX, Copy, RotateCw, Square, Unplug } from "lucide-react";
import { memo, useCallback, useEffect, useMemo, useReducer, useState } from "react";
import type { DiagnosticAnswer, ErrorAnswer, StackFrameAnswer } from "../../api/schema";
import { positionOf, type Position } from "../../state/calls";
import { openFile } from "../../state/documents";
import { bytes, seconds } from "../../state/format";
import { titleOf } from "../../state/languages";
import { revealInCell } from "../../state/notebooks";
import { start, stop, type Piece, type Run } from "../../state/runs";
import { attempt, note } from "../../state/toasts";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Spinner } from "../../ui/states";
import { Artifacts } from "./Artifacts";
import { Display } from "./Display";
import { ErrorView } from "./ErrorView";
import type { Place } from "./links";
import { RunInput } from "./RunInput";
import { TextView, type Range } from "./TextView";
import { Undone } from "./Undone";

/** Redraws when the run changes. */
function useRun(run: Run): void {
  const [, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => run.changed.on(again), [run]);
}

/** One run: a section that closes, with everything it showed, in order. A notebook shows it without its title. */
export const RunView = memo(function RunView({ run, isUntitled = false }: { run: Run; isUntitled?: boolean }) {
  useRun(run);
  const { asked, result } = run;
  const trail = useMemo(
    () => ({
      find: (frame: StackFrameAnswer) => positionOf(run, frame),
      open: (position: Position) => {
        if (position.cell) revealInCell(position.cell, position.line);
        else attempt(() => openFile(position.path, position));
      },
    }),
    [run],
  );
  const go = useCallback(
    (place: Place) => {
      const position = positionOf(run, { ...place, file: place.path, cell: null });
      if (position) trail.open(position);
    },
    [run, trail],
  );
  const toggle = () => {
    run.collapsed = !run.collapsed;
    run.tell();
  };
  const ours = result?.execution_count ?? null;
  const told = toldIn(run);
  const artifacts = result?.artifacts ?? [];
  const isEmpty = run.isOver && run.pieces.length === 0 && artifacts.length === 0 && !run.problem;
  return (
    <section
      aria-label={`Run: ${asked.title || titleOf(asked.language)}`}
      data-phase={run.phase}
      data-undone={run.undone || undefined}
      className={classes(!isUntitled && "border-b border-line")}
    >
      <header hidden={isUntitled} className="group/run sticky top-0 z-[1] flex h-9 items-center gap-1.5 bg-surface/95 pr-1.5 pl-1.5 backdrop-blur-sm">
        <button
          type="button"
          aria-expanded={!run.collapsed}
          title={run.collapsed ? "Show this run" : "Hide this run"}
          onClick={toggle}
          className="flex min-w-0 flex-1 items-center gap-2 rounded-md py-1 pr-2 text-left hover:bg-hover/60"
        >
          <ChevronRight size={14} className={classes("shrink-0 text-ink-faint transition-transform", !run.collapsed && "rotate-90")} />
          <Status run={run} />
          <span className={classes("truncate font-medium", run.undone && "text-ink-soft line-through")}>{asked.title || titleOf(asked.language)}</span>
          {run.undone && <Undone />}
          {run.isOthers && <span className="shrink-0 rounded bg-sunken px-1.5 text-2xs text-ink-soft">another client</span>}
        </button>
        <Figures run={run} />
        <span className="flex opacity-0 transition-opacity group-focus-within/run:opacity-100 group-hover/run:opacity-100 max-md:opacity-100">
          {run.isOver && asked.code && !run.isOthers && (
            <IconButton label="Run this again" size="small" onClick={() => start(asked)}>
              <RotateCw size={13} />
            </IconButton>
          )}
          {run.hasText && (
            <IconButton
              label="Copy the output"
              size="small"
              onClick={() => attempt(async () => (await navigator.clipboard.writeText(run.text), note("Copied")))}
            >
              <Copy size={13} />
            </IconButton>
          )}
        </span>
        {!run.isOver && (
          <IconButton label="Stop this run" size="small" className="text-danger" onClick={() => attempt(() => stop(run))}>
            <Square size={12} fill="currentColor" />
          </IconButton>
        )}
      </header>
      {(isUntitled || !run.collapsed) && (
        <div className={classes("pb-1", run.undone && "undone")}>
          {run.missed && <p className="px-3 text-2xs text-warn">Some output was dropped because it came too fast.</p>}
          {run.pieces.map((piece, index) =>
            piece.type === "text" ? (
              <TextView key={index} lines={piece.lines} version={piece.lines.version} go={go} ours={ours} isLive={!run.isOver} hidden={told?.piece === piece ? told : null} />
            ) : piece.type === "display" ? (
              <Display key={piece.key} display={piece.display} number={index + 1} context={asked.context ?? asked.language} />
            ) : (
              <ErrorView key={index} error={piece.error} go={go} ours={ours} trail={trail} isTold={isTold(run, piece.error)} />
            ),
          )}
          {result && result.error === null && (result.diagnostics ?? []).length > 0 && <Diagnostics found={result.diagnostics} go={go} />}
          {artifacts.length > 0 && <Artifacts artifacts={artifacts} />}
          {run.isCut && <p className="px-3 pb-1 text-2xs text-warn">The output was cut at its limit.</p>}
          {result?.restarted && (
            <p className="px-3 pb-1 text-2xs text-warn">The session restarted. Its variables are lost, its files are kept.</p>
          )}
          {run.problem && (
            <div role="alert" className="mx-2 my-1.5 rounded-lg border border-danger/35 bg-danger-soft/50 px-2.5 py-1.5 text-xs">
              <p className="font-medium text-danger">{run.problem.message}</p>
              {run.problem.hint && <p className="text-ink-soft">{run.problem.hint}</p>}
            </div>
          )}
          {isEmpty && !isUntitled && <p className="px-3 pb-1.5 text-xs text-ink-faint">No output.</p>}
          {!run.isOver && <Progress run={run} />}
          {run.takesInput && <RunInput run={run} />}
        </div>
      )}
    </section>
  );
});

/** The lines in which the program itself has printed the traceback that the error shows. */
function toldIn(run: Run): (Range & { piece: Piece }) | null {
  const error = run.result?.error;
  const trace = error?.raised?.length ? (error.traceback ?? "").trimEnd().split("\n") : [];
  const piece = run.pieces.findLast((one) => one.type === "text");
  if (trace.length < 2 || piece?.type !== "text") return null;
  const { all } = piece.lines;
  for (let start = all.length - trace.length; start >= 0 && start > all.length - trace.length - 10; start--) {
    if (trace.every((line, index) => all[start + index]?.text === line)) return { piece, start, end: start + trace.length };
  }
  return null;
}

/** Has the run already printed the details of the error? Compilers do. */
function isTold(run: Run, error: ErrorAnswer): boolean {
  const first = error.traceback?.split("\n").find((line) => line.trim());
  return first !== undefined && run.pieces.some((piece) => piece.type === "text" && piece.lines.all.some((line) => line.text === first));
}

/** Type errors in a program that ran anyway. */
function Diagnostics({ found, go }: { found: DiagnosticAnswer[]; go: (place: Place) => void }) {
  return (
    <ul aria-label="Problems found by the type checker" className="mx-2 my-1.5 rounded-lg border border-warn/35 bg-warn-soft/60 px-2.5 py-1.5 text-xs">
      {found.slice(0, 20).map((one, index) => (
        <li key={index} className="flex gap-2">
          <button
            type="button"
            onClick={() => go({ start: 0, end: 0, path: one.file, line: one.line, column: one.column })}
            className="shrink-0 font-mono text-warn underline decoration-dotted underline-offset-2 hover:decoration-solid"
          >
            {one.file}:{one.line}
          </button>
          <span className="min-w-0 break-words">{one.message}</span>
        </li>
      ))}
      {found.length > 20 && <li className="text-ink-soft">and {found.length - 20} more</li>}
    </ul>
  );
}

function Status({ run }: { run: Run }) {
  if (!run.connected && !run.isOver) return <Unplug size={14} className="shrink-0 text-warn" aria-label="Connection lost" />;
  if (!run.isOver) return <span className="shrink-0 text-accent"><Spinner /></span>;
  if (run.hasFailed) return <CircleX size={14} className="shrink-0 text-danger" aria-label="Failed" />;
  return <CircleCheck size={14} className="shrink-0 text-accent" aria-label="Succeeded" />;
}

/** Exit code, duration, peak memory; while it runs, the time that has passed. */
function Figures({ run }: { run: Run }) {
  const { result } = run;
  if (!run.isOver) return <Passed since={run.began} />;
  if (!result) return null;
  return (
    <span className="flex shrink-0 items-center gap-2 text-2xs whitespace-nowrap text-ink-faint tabular-nums">
      {result.exit_code !== 0 && <span className="text-danger" data-figure="exit">exit {result.exit_code}</span>}
      {result.exit_code === 0 && run.asked.kind === "program" && <span data-figure="exit">exit 0</span>}
      <span data-figure="duration" title={`CPU time ${seconds(result.cpu_time)}`}>{seconds(result.duration)}</span>
      {result.memory_peak > 0 && <span data-figure="memory" title="Peak memory">{bytes(result.memory_peak)}</span>}
    </span>
  );
}

function Passed({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 100);
    return () => clearInterval(timer);
  }, []);
  const passed = Math.max(0, (now - since) / 1000);
  return <span className="shrink-0 text-2xs text-ink-faint tabular-nums">{passed < 0.3 ? "" : `${passed.toFixed(1)} s`}</span>;
}

const steps: Record<string, string> = { compile: "Compiling", check: "Checking types", install: "Installing packages", link: "Linking" };

/** The current step, if it takes longer than a second. */
function Progress({ run }: { run: Run }) {
  const [isLong, setLong] = useState(Date.now() - run.began > 1000);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), Math.max(0, 1000 - (Date.now() - run.began)));
    return () => clearTimeout(timer);
  }, [run]);
  if (!isLong) return null;
  const doing = !run.connected
    ? "Connection lost. The run goes on; reconnecting"
    : run.step
      ? (steps[run.step] ?? run.step)
      : run.phase === "starting"
        ? "Starting"
        : /^\s*[!%]?(pip|npm|uv)\s+(install|add)/m.test(run.asked.code)
          ? "Installing packages"
          : run.pieces.length > 0
            ? ""
            : "Running";
  if (!doing) return null;
  return (
    <p role="status" className="flex items-center gap-2 px-3 py-1 text-xs text-ink-faint">
      <span className="breathe size-1.5 rounded-full bg-accent" />
      {doing}…
    </p>
  );
}
