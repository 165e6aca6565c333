import { Globe } from "lucide-react";
import type { KeyboardEvent, ReactNode } from "react";
import { previews, show } from "../../state/previews";
import { useStore } from "../../state/store";
import { classes } from "../../ui/classes";

/** The output and the previews as tabs; nothing while no server listens. */
export function useResultTabs(): ReactNode {
  const all = useStore(previews, (state) => state.all);
  const shown = useStore(previews, (state) => state.shown);
  if (all.length === 0) return undefined;
  const tabs = [null, ...all.map((one) => one.port)];
  const onKey = (event: KeyboardEvent<HTMLElement>) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = by === undefined ? undefined : tabs[tabs.indexOf(shown) + by];
    if (next === undefined) return;
    event.preventDefault();
    show(next);
    // The tabs of the panel that is shown now are others.
    requestAnimationFrame(() => [...document.querySelectorAll<HTMLElement>("[data-result-tab][aria-selected=true]")].find((tab) => tab.offsetParent)?.focus());
  };
  return (
    <div role="tablist" aria-label="Output and previews" onKeyDown={onKey} className="-ml-1.5 flex min-w-0 flex-1 items-center gap-0.5 self-stretch overflow-x-auto [scrollbar-width:none]">
      {tabs.map((port) => (
        <button
          key={port ?? "output"}
          type="button"
          role="tab"
          data-result-tab
          aria-selected={port === shown}
          tabIndex={port === shown ? 0 : -1}
          onClick={() => show(port)}
          title={port === null ? "The output of runs" : `The server on port ${port}`}
          className={classes(
            "flex h-6.5 shrink-0 items-center gap-1 rounded-md px-2 text-xs font-semibold transition-colors outline-offset-[-2px]",
            port === shown ? "bg-accent-soft text-accent" : "text-ink-soft hover:bg-hover hover:text-ink",
          )}
        >
          {port === null ? (
            "Output"
          ) : (
            <>
              <Globe size={12} aria-hidden="true" />
              Port {port}
            </>
          )}
        </button>
      ))}
    </div>
  );
}
