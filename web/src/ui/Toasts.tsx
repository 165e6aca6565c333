import { X } from "lucide-react";
import { dismiss, toasts } from "../state/toasts";
import { useStore } from "../state/store";
import { IconButton } from "./Button";
import { classes } from "./classes";

/** Short messages at the edge of the page, which disappear on their own. */
export function Toasts() {
  const shown = useStore(toasts, (state) => state.shown);
  return (
    <div aria-live="polite" className="pointer-events-none fixed right-4 bottom-4 z-50 flex w-80 max-w-[calc(100vw-2rem)] flex-col gap-2 max-md:bottom-18">
      {shown.map((toast) => (
        <div
          key={toast.id}
          className={classes(
            "appear pointer-events-auto flex items-start gap-2 rounded-lg border bg-raised py-2 pr-1.5 pl-3 shadow-pop",
            toast.kind === "problem" ? "border-danger/40" : "border-line",
          )}
        >
          <div className="min-w-0 flex-1 py-0.5">
            <p className={classes("font-medium break-words", toast.kind === "problem" && "text-danger")}>{toast.message}</p>
            {toast.hint && <p className="text-xs text-ink-soft">{toast.hint}</p>}
          </div>
          <IconButton label="Dismiss" size="small" onClick={() => dismiss(toast.id)}>
            <X size={14} />
          </IconButton>
        </div>
      ))}
    </div>
  );
}
