import { ChevronRight } from "lucide-react";
import { useState } from "react";
import { classes } from "../../ui/classes";

const MANY = 100;

/** JSON as a tree that opens where it is clicked. */
export function JsonTree({ value }: { value: unknown }) {
  return (
    <div className="overflow-x-auto px-3 py-2 font-mono text-xs leading-5">
      <Node value={value} depth={0} />
    </div>
  );
}

function Node({ name, value, depth }: { name?: string; value: unknown; depth: number }) {
  const isBranch = typeof value === "object" && value !== null;
  const entries = isBranch ? Object.entries(value) : [];
  const [open, setOpen] = useState(depth < 2 && entries.length <= MANY);
  const [most, setMost] = useState(MANY);
  const label = name === undefined ? null : <span className="text-info">{name}</span>;
  if (!isBranch) {
    return (
      <div className="pl-4">
        {label}
        {label && ": "}
        <Leaf value={value} />
      </div>
    );
  }
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return (
      <div className="pl-4">
        {label}
        {label && ": "}
        <span className="text-ink-faint">{begin + end}</span>
      </div>
    );
  }
  return (
    <div>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex items-center rounded-sm hover:bg-hover">
        <ChevronRight size={13} className={classes("mr-0.5 text-ink-faint transition-transform", open && "rotate-90")} />
        {label}
        {label && <span>:&nbsp;</span>}
        <span className="text-ink-faint">
          {begin}
          {!open && ` ${entries.length} ${end}`}
        </span>
      </button>
      {open && (
        <div className="ml-1.5 border-l border-line pl-2.5">
          {entries.slice(0, most).map(([key, one]) => (
            <Node key={key} name={key} value={one} depth={depth + 1} />
          ))}
          {entries.length > most && (
            <button type="button" className="pl-4 text-accent hover:underline" onClick={() => setMost(most + 10 * MANY)}>
              {entries.length - most} more
            </button>
          )}
        </div>
      )}
      {open && <div className="pl-4 text-ink-faint">{end}</div>}
    </div>
  );
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") return <span className="break-all text-[var(--ansi-green)]">{JSON.stringify(value)}</span>;
  if (typeof value === "number") return <span className="text-[var(--ansi-magenta)]">{value}</span>;
  return <span className="text-[var(--ansi-yellow)]">{String(value)}</span>;
}
