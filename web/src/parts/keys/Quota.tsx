import type { CurrentKeyAnswer } from "../../api/schema";
import { LIMITS } from "../../state/keys";
import { amount } from "./amounts";

/** What is left of the limits of a key. */
export function Quota({ current }: { current: CurrentKeyAnswer }) {
  const limited = LIMITS.filter((limit) => current.limits[limit.name] !== undefined);
  if (limited.length === 0) return <p className="text-xs text-ink-faint">This key has no limits of its own.</p>;
  return (
    <ul className="grid gap-x-8 gap-y-3 sm:grid-cols-2">
      {limited.map(({ name, title, unit, today }) => {
        const limit = current.limits[name] ?? 0;
        const used = current.in_use[name];
        if (used === undefined) {
          return (
            <li key={name} className="flex justify-between gap-3">
              <span className="text-ink-soft">{title}</span>
              <span className="tabular-nums">{amount(limit, unit)}</span>
            </li>
          );
        }
        const left = Math.max(0, limit - used);
        const part = Math.min(1, used / limit);
        return (
          <li key={name}>
            <div className="mb-1 flex justify-between gap-3">
              <span className="text-ink-soft">{title}</span>
              <span className="tabular-nums">
                <span className="font-medium">{amount(left, unit)}</span> <span className="text-ink-faint">of {amount(limit, unit)} left{today ? " today" : ""}</span>
              </span>
            </div>
            <div aria-hidden="true" className="h-1.5 overflow-hidden rounded-full bg-line">
              <div className={part > 0.9 ? "h-full bg-danger" : "h-full bg-accent"} style={{ width: `${part * 100}%` }} />
            </div>
          </li>
        );
      })}
    </ul>
  );
}
