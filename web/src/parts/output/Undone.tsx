import { Undo2 } from "lucide-react";

/** Marks a run whose variables and files are gone. */
export function Undone() {
  return (
    <span className="flex shrink-0 items-center gap-1 rounded bg-warn-soft px-1.5 text-2xs text-warn" title="Its variables and files are gone">
      <Undo2 size={11} aria-hidden="true" /> undone
    </span>
  );
}
