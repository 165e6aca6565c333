import { classes } from "./classes";

const isMac = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);
const symbols: Record<string, string> = isMac
  ? { mod: "⌘", shift: "⇧", alt: "⌥", enter: "↩", escape: "Esc", backquote: "`" }
  : { mod: "Ctrl", shift: "Shift", alt: "Alt", enter: "Enter", escape: "Esc", backquote: "`" };

/** A key binding as it is written in code ("mod+shift+p") for a person to read. */
export function spoken(keys: string): string[] {
  return keys.split("+").map((key) => symbols[key] ?? (key.length === 1 ? key.toUpperCase() : key));
}

export function Keys({ keys, inverted = false }: { keys: string; inverted?: boolean }) {
  return (
    <span className="inline-flex gap-0.5 font-sans">
      {spoken(keys).map((key) => (
        <kbd
          key={key}
          className={classes(
            "rounded px-1 py-px font-sans text-2xs",
            inverted ? "bg-canvas/20 text-canvas" : "border border-line bg-sunken text-ink-soft",
          )}
        >
          {key}
        </kbd>
      ))}
    </span>
  );
}
