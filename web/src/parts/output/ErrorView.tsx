import { Lightbulb } from "lucide-react";
import { useState } from "react";
import type { ErrorAnswer } from "../../api/schema";
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
  go: Go;
  ours: number | null;
  /** The run has printed the traceback itself, so it is folded. */
  isTold: boolean;
}

/** Why a run failed: first what to do, then the traceback with links to the lines. */
export function ErrorView({ error, go, ours, isTold }: Props) {
  const [open, setOpen] = useState(!isTold);
  const trace = withoutTitle(error.traceback_ansi ?? error.traceback ?? "");
  const title = error.name ? `${error.name}: ${error.message}` : error.message;
  return (
    <div role="alert" className="mx-2 my-1.5 overflow-hidden rounded-lg border border-danger/35 bg-danger-soft/50">
      <div className="flex items-start gap-2 px-2.5 py-1.5">
        <p className="min-w-0 flex-1 font-mono text-xs leading-[18px] font-semibold break-words whitespace-pre-wrap text-danger">
          {styled(title, "", go, ours)}
        </p>
        {trace && (
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="text-2xs text-ink-soft hover:text-ink">
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
      {trace && open && (
        <pre className="overflow-x-auto border-t border-danger/20 bg-surface/70 px-2.5 py-2 font-mono text-xs leading-[18px]">
          {trace.split("\n").map((line, index) => (
            <div key={index}>{line ? styled(line, "", go, ours) : "\u200b"}</div>
          ))}
        </pre>
      )}
    </div>
  );
}
