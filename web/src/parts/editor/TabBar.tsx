import { TriangleAlert, X } from "lucide-react";
import { useEffect, useRef, useState, type DragEvent, type KeyboardEvent } from "react";
import { activate, closeFile, documents, isDirty, moveTab, abandon } from "../../state/documents";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { baseOf, nameOf, parentOf, shown } from "../../state/tree";
import { classes } from "../../ui/classes";
import { OtherMenu } from "../../ui/Menu";
import { FileIcon } from "../files/icons";

const DRAGGED = "application/x-cloche-tab";

/** The open files. */
export function TabBar() {
  const open = useStore(documents, (state) => state.open);
  const active = useStore(documents, (state) => state.active);
  const byPath = useStore(documents, (state) => state.byPath);
  const [over, setOver] = useState<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const bar = list.current;
    const tab = bar?.querySelector<HTMLElement>("[aria-selected=true]")?.parentElement;
    if (!bar || !tab) return;
    // Not `scrollIntoView`, which would also move the panes around it.
    const show = () => {
      const { left, right } = bar.getBoundingClientRect();
      const place = tab.getBoundingClientRect();
      bar.scrollLeft += Math.min(0, place.left - left) || Math.max(0, Math.min(place.right - right, place.left - left));
    };
    const sizes = new ResizeObserver(show); // of the bar: the switch to a file's view leaves less room
    sizes.observe(bar);
    return () => sizes.disconnect();
  }, [active, open]);

  const onKey = (event: KeyboardEvent, path: string) => {
    const at = open.indexOf(path);
    const next = event.key === "ArrowRight" ? open[at + 1] : event.key === "ArrowLeft" ? open[at - 1] : undefined;
    if (next) {
      activate(next);
      const tabs = event.currentTarget.closest('[role="tablist"]')?.querySelectorAll<HTMLElement>('[role="tab"]');
      requestAnimationFrame(() => tabs?.[open.indexOf(next)]?.focus());
    }
    if (event.key === "Delete") attempt(() => closeFile(path));
  };

  return (
    <div ref={list} role="tablist" aria-label="Open files" className="flex min-w-0 flex-1 items-end gap-px self-stretch overflow-x-auto [scrollbar-width:none]">
      {open.map((path) => {
        const document = byPath[path];
        const isActive = path === active;
        const isDouble = open.some((other) => other !== path && baseOf(other) === baseOf(path));
        return (
          <OtherMenu
            key={path}
            entries={() => [
              { label: "Close", onSelect: () => attempt(() => closeFile(path)) },
              { label: "Close others", onSelect: () => open.filter((one) => one !== path).forEach((one) => attempt(() => closeFile(one))) },
              { label: "Close all", onSelect: () => open.forEach((one) => attempt(() => closeFile(one))) },
              null,
              { label: "Close and discard changes", onSelect: () => abandon(path), danger: true },
            ]}
          >
            <div
              role="presentation"
              onDragOver={(event: DragEvent) => {
                if (!event.dataTransfer.types.includes(DRAGGED)) return;
                event.preventDefault();
                setOver(path);
              }}
              onDragLeave={() => setOver(null)}
              onDrop={(event) => {
                const moved = event.dataTransfer.getData(DRAGGED);
                setOver(null);
                if (moved && moved !== path) moveTab(moved, path);
              }}
              className={classes(
                "group/tab relative flex h-full max-w-52 shrink-0 items-center border-r border-line",
                isActive ? "bg-surface" : "bg-sunken/60 text-ink-soft hover:text-ink",
                over === path && "border-l-2 border-l-accent",
              )}
            >
              {isActive && <span className="absolute inset-x-0 top-0 h-0.5 bg-accent" />}
              <button
                type="button"
                role="tab"
                aria-description="Press Delete to close"
                aria-selected={isActive}
                tabIndex={isActive ? 0 : -1}
                draggable
                onDragStart={(event) => event.dataTransfer.setData(DRAGGED, path)}
                onClick={() => activate(path)}
                onAuxClick={(event) => event.button === 1 && attempt(() => closeFile(path))}
                onKeyDown={(event) => onKey(event, path)}
                title={shown(path)}
                className="flex h-full min-w-0 items-center gap-1.5 py-1 pl-3 outline-offset-[-3px]"
              >
                <FileIcon path={path} size={13} />
                <span className={classes("truncate", document?.removed && "line-through")}>{nameOf(path)}</span>
                {document && document.theirs !== null && <TriangleAlert size={12} className="shrink-0 text-warn" aria-label="changed by someone else, too" />}
                {isDouble && <span className="text-2xs text-ink-faint">{nameOf(parentOf(path))}</span>}
              </button>
              <button
                type="button"
                tabIndex={-1}
                aria-hidden="true" // a tab list may contain only tabs; Delete closes the focused one
                title={`Close ${nameOf(path)}`}
                onClick={() => attempt(() => closeFile(path))}
                className="mx-1 flex size-5 shrink-0 items-center justify-center rounded hover:bg-hover"
              >
                {document && isDirty(document) ? (
                  <>
                    <span className="size-1.5 rounded-full bg-warn group-hover/tab:hidden" />
                    <X size={12} className="hidden group-hover/tab:block" />
                  </>
                ) : (
                  <X size={12} className={classes(!isActive && "opacity-0 group-hover/tab:opacity-100")} />
                )}
              </button>
            </div>
          </OtherMenu>
        );
      })}
    </div>
  );
}
