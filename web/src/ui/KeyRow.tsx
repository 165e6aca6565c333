import type { ReactNode } from "react";
import { classes } from "./classes";

export interface Key {
  /** Its name; one that is shown as a text is called that. */
  label: string;
  shown: ReactNode;
  press: () => void;
  /** It stays down until the next key. */
  isDown?: boolean;
}

/** Keys that the keyboard of a phone lacks, in a row above it. */
export function KeyRow({ label, keys }: { label: string; keys: Key[] }) {
  return (
    <div role="toolbar" aria-label={label} className="flex shrink-0 gap-1 border-t border-line bg-sunken p-1 md:hidden">
      {keys.map((key) => (
        <button
          key={key.label}
          type="button"
          {...(typeof key.shown === "string" ? {} : { "aria-label": key.label })}
          title={key.label}
          aria-pressed={key.isDown}
          // Without the focus, the keyboard would go away.
          onPointerDown={(event) => event.preventDefault()}
          onMouseDown={(event) => event.preventDefault()}
          onClick={key.press}
          className={classes(
            "flex h-9 min-w-0 flex-1 items-center justify-center rounded-md border font-mono text-xs select-none",
            key.isDown ? "border-accent bg-accent-soft text-accent" : "border-line bg-raised text-ink active:bg-hover",
          )}
        >
          {key.shown}
        </button>
      ))}
    </div>
  );
}
