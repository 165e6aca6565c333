import { ArrowDown, ChevronsDownUp, Play, Trash2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { keysOf } from "../../state/commands";
import { clearRuns, collapseAll, runs } from "../../state/runs";
import { useStore } from "../../state/store";
import { IconButton } from "../../ui/Button";
import { Keys } from "../../ui/Keys";
import { Pane } from "../../ui/Pane";
import { Empty, Loading } from "../../ui/states";
import { useResultTabs } from "../previews/ResultTabs";
import "./output.css";
import { RunView } from "./RunView";

/** All runs of this sandbox, the newest last. */
export function OutputPanel() {
  const all = useStore(runs, (state) => state.all);
  const loading = useStore(runs, (state) => state.loading);
  const box = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const was = useRef(0);
  const [away, setAway] = useState(false);
  const last = all[all.length - 1];

  useEffect(() => {
    // Scroll to new output, unless the person has scrolled up to read.
    const element = inner.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (isAtEnd.current) box.current?.scrollTo({ top: box.current.scrollHeight });
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [all.length === 0]);

  useEffect(() => {
    isAtEnd.current = true;
    box.current?.scrollTo({ top: box.current.scrollHeight });
  }, [last?.key]);

  return (
    <Pane
      title="Output"
      heading={useResultTabs()}
      actions={
        all.length > 0 && (
          <>
            <IconButton label="Collapse all" size="small" onClick={() => collapseAll(all.some((run) => !run.collapsed))}>
              <ChevronsDownUp size={14} />
            </IconButton>
            <IconButton label="Clear the output" size="small" onClick={clearRuns}>
              <Trash2 size={14} />
            </IconButton>
          </>
        )
      }
    >
      {all.length === 0 ? (
        loading ? (
          <Loading label="Loading earlier runs" />
        ) : (
          <Empty icon={<Play size={22} />} title="Nothing has run yet">
            Press <Keys keys={keysOf("run") ?? "mod+enter"} /> in the editor. Variables stay from run to run; mark cells in a
            file with <code className="font-mono">%%</code> in a comment.
          </Empty>
        )
      ) : (
        <div className="relative h-full">
          <div
            ref={box}
            tabIndex={0}
            role="region"
            aria-label="Runs"
            onScroll={(event) => {
              const element = event.currentTarget;
              // Only scrolling up leaves the end; growing content does not.
              if (element.scrollTop < was.current - 2) isAtEnd.current = false;
              if (element.scrollTop + element.clientHeight >= element.scrollHeight - 40) isAtEnd.current = true;
              was.current = element.scrollTop;
              setAway(!isAtEnd.current);
            }}
            className="h-full overflow-y-auto overscroll-contain"
          >
            <div ref={inner}>
              {all.map((run) => (
                <RunView key={run.key} run={run} />
              ))}
            </div>
          </div>
          {away && (
            <button
              type="button"
              onClick={() => box.current?.scrollTo({ top: box.current.scrollHeight, behavior: "smooth" })}
              className="appear absolute right-4 bottom-3 flex items-center gap-1 rounded-full border border-line bg-raised px-2.5 py-1 text-2xs text-ink-soft shadow-pane hover:text-ink"
            >
              <ArrowDown size={12} /> Latest
            </button>
          )}
        </div>
      )}
    </Pane>
  );
}
