import { CircleCheck, CircleX, Code2, Eye, Moon, Sun } from "lucide-react";
import { Tooltip } from "radix-ui";
import { Component, useEffect, useState, type ReactNode } from "react";
import { ApiProblem, explain } from "../api/http";
import type { ProblemAnswer, SharedDocument, SharedFile, SharedRun } from "../api/schema";
import { Display } from "../parts/output/Display";
import { ErrorView } from "../parts/output/ErrorView";
import "../parts/output/output.css";
import { Undone } from "../parts/output/Undone";
import { TextView } from "../parts/output/TextView";
import { isDark, setTheme } from "../state/app";
import { bytes, seconds } from "../state/format";
import { thawed } from "../state/frozen";
import { visible } from "../state/names";
import { Bell, Wordmark } from "../ui/Bell";
import { IconButton } from "../ui/Button";
import { classes } from "../ui/classes";
import { Loading } from "../ui/states";
import { paint, type Span } from "./paint";

/** Loads the shared document of this address. It is requested without a cookie, because none is needed. */
async function fetched(): Promise<SharedDocument> {
  const response = await fetch(`${location.pathname.replace(/\/$/, "")}/document`, { credentials: "omit" });
  const answer = (await response.json()) as SharedDocument & ProblemAnswer;
  if (!response.ok) throw new ApiProblem(response.status, answer.error.kind, answer.error.message, answer.error.hint);
  return answer;
}

/** A shared document, read-only. */
export function SharedPage() {
  const [document_, setDocument] = useState<SharedDocument | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [, again] = useState(0);
  useEffect(() => void fetched().then(setDocument, setProblem), []);
  useEffect(() => {
    if (document_) document.title = `${document_.title} · Cloche`;
  }, [document_]);
  return (
    <Tooltip.Provider delayDuration={350}>
      <div className="h-full overflow-y-auto">
        <header className="sticky top-0 z-10 border-b border-line bg-canvas/90 backdrop-blur-sm">
          <div className="mx-auto flex h-13 max-w-4xl items-center justify-between gap-3 px-5">
            <Wordmark />
            <span className="flex items-center gap-3">
              <span className="flex items-center gap-1.5 rounded-full bg-sunken px-2.5 py-1 text-2xs text-ink-soft">
                <Eye size={12} aria-hidden="true" /> A snapshot, read only
              </span>
              <IconButton
                label={isDark() ? "Light theme" : "Dark theme"}
                onClick={() => {
                  setTheme(isDark() ? "light" : "dark");
                  again((count) => count + 1);
                }}
              >
                {isDark() ? <Sun size={15} /> : <Moon size={15} />}
              </IconButton>
            </span>
          </div>
        </header>
        <main className="mx-auto max-w-4xl px-5 py-8">
          {problem ? (
            <Nothing problem={problem} />
          ) : document_ ? (
            <Guard>
              <Contents shared={document_} />
            </Guard>
          ) : (
            <div className="h-60"><Loading label="Loading the shared page" /></div>
          )}
        </main>
      </div>
    </Tooltip.Provider>
  );
}

function Nothing({ problem }: { problem: unknown }) {
  const { message, hint } = explain(problem);
  return (
    <div role="alert" className="flex flex-col items-center gap-3 py-20 text-center">
      <span className="text-ink-faint"><Bell size={44} /></span>
      <h1 className="font-display text-3xl">This link does not work</h1>
      <p className="max-w-sm text-ink-soft">{message} {hint}</p>
    </div>
  );
}

/** Keeps a damaged document from breaking the page. */
class Guard extends Component<{ children: ReactNode }, { problem: unknown }> {
  override state = { problem: null };

  static getDerivedStateFromError(problem: unknown): { problem: unknown } {
    return { problem };
  }

  override render(): ReactNode {
    return this.state.problem ? <Nothing problem={new Error("The shared page cannot be shown.")} /> : this.props.children;
  }
}

function Contents({ shared }: { shared: SharedDocument }) {
  const { files = [], runs = [] } = shared;
  return (
    <div className="flex flex-col gap-6">
      <div>
        <h1 className="font-display text-4xl leading-tight tracking-tight break-words">{shared.title}</h1>
        <p className="mt-1 text-xs text-ink-faint">
          {new Date(shared.created * 1000).toLocaleString()} · {files.length} {files.length === 1 ? "file" : "files"} · {runs.length} {runs.length === 1 ? "run" : "runs"}
        </p>
      </div>
      {files.map((file) => (
        <FileView key={file.path} file={file} />
      ))}
      {runs.map((run, index) => (
        <RunView key={index} run={run} isShown={files.some((file) => run.code !== undefined && file.text.includes(run.code.trim()))} />
      ))}
    </div>
  );
}

const tints: Record<Span["kind"], string> = {
  plain: "",
  comment: "text-ink-faint italic",
  string: "text-[var(--ansi-green)]",
  number: "text-[var(--ansi-yellow)]",
  keyword: "text-[var(--ansi-magenta)]",
};
const MAX_PAINTED = 100_000; // characters

function Code({ path, text }: { path: string; text: string }) {
  const shown = text.replace(/\n$/, "");
  const spans = shown.length > MAX_PAINTED ? [{ kind: "plain" as const, text: shown }] : paint(path, shown);
  return (
    <pre tabIndex={0} aria-label={`Code of ${path}`} className="flex max-h-[34rem] overflow-auto py-2.5 font-mono text-xs leading-[18px]">
      <code aria-hidden="true" className="sticky left-0 shrink-0 bg-surface pr-3 pl-4 text-right text-ink-faint select-none">
        {shown.split("\n").map((_, index) => `${index + 1}\n`)}
      </code>
      <code className="pr-4">
        {spans.map((span, index) => (
          <span key={index} className={tints[span.kind]}>{span.text}</span>
        ))}
      </code>
    </pre>
  );
}

function FileView({ file }: { file: SharedFile }) {
  return (
    <section aria-label={visible(file.path)} className="pane">
      <h2 className="flex h-9 items-center gap-2 border-b border-line px-4 font-mono text-xs font-medium">
        <Code2 size={14} className="text-ink-faint" aria-hidden="true" />
        <span className="truncate">{visible(file.path)}</span>
      </h2>
      <Code path={file.path} text={file.text} />
    </section>
  );
}

const nowhere = (): void => undefined;
const endings: Record<string, string> = { python: "cell.py", bash: "cell.sh", r: "cell.r" };

function RunView({ run, isShown }: { run: SharedRun; isShown: boolean }) {
  const pieces = thawed(run);
  const hasFailed = (run.exit_code ?? 0) !== 0 || pieces.some((piece) => piece.type === "error");
  const Icon = hasFailed ? CircleX : CircleCheck;
  return (
    <section aria-label={`Run: ${run.title || run.language}`} className="pane">
      <h2 className="flex h-9 items-center gap-2 border-b border-line px-4 text-[0.8125rem] font-medium">
        <Icon size={14} className={classes("shrink-0", hasFailed ? "text-danger" : "text-accent")} aria-label={hasFailed ? "Failed" : "Succeeded"} />
        <span className="flex min-w-0 flex-1 items-center gap-2">
          <span className={classes("truncate", run.undone && "text-ink-soft line-through")}>{run.title || run.language}</span>
          {run.undone && <Undone />}
        </span>
        <span className="flex gap-2 text-2xs font-normal text-ink-faint tabular-nums">
          {run.exit_code ? <span className="text-danger">exit {run.exit_code}</span> : null}
          {run.duration != null && <span>{seconds(run.duration)}</span>}
          {run.memory_peak ? <span>{bytes(run.memory_peak)}</span> : null}
        </span>
      </h2>
      {run.code && !isShown && (
        <div className="border-b border-line bg-sunken">
          <Code path={endings[run.language] ?? "cell.ts"} text={run.code} />
        </div>
      )}
      <div className={classes("py-1", run.undone && "undone")}>
        {pieces.map((piece, index) =>
          piece.type === "text" ? (
            <TextView key={index} lines={piece.lines} version={0} go={nowhere} ours={null} isLive={false} />
          ) : piece.type === "display" ? (
            <Display key={index} display={piece.display} number={index + 1} />
          ) : (
            <ErrorView key={index} error={piece.error} ours={null} isTold={false} />
          ),
        )}
        {pieces.length === 0 && <p className="px-4 py-1 text-xs text-ink-faint">No output.</p>}
      </div>
    </section>
  );
}
