import { useEffect, useState } from "react";
import { explain } from "../../api/http";
import { visible } from "../../state/names";
import "./packages.css";

const AFTER_MS = 1000; // shorter work needs no bar

/** A bar for work that takes long. The server does not say how far it is, so the bar shows only that it goes on. */
export function Progress({ label, began }: { label: string; began: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, []);
  if (now - began < AFTER_MS) return null;
  return (
    <div className="appear mt-1 flex items-center gap-2">
      <div role="progressbar" aria-label={label} className="h-1 min-w-0 flex-1 overflow-hidden rounded-full bg-sunken">
        <div className="running-bar h-full w-1/3 rounded-full bg-accent" />
      </div>
      <span className="w-8 shrink-0 text-right text-2xs text-ink-faint tabular-nums">{Math.floor((now - began) / 1000)} s</span>
    </div>
  );
}

/** Why work has failed, and what to do next. */
export function WorkProblem({ problem }: { problem: unknown }) {
  const { message, hint } = explain(problem);
  return (
    <div role="alert" className="mt-1 rounded-md bg-danger-soft px-2 py-1.5 text-2xs wrap-anywhere">
      <p className="text-danger">{visible(message)}</p>
      {hint && <p className="mt-0.5 text-ink-soft">{visible(hint)}</p>}
    </div>
  );
}
