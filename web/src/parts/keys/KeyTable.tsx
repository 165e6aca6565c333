import { useState } from "react";
import type { KeyAnswer } from "../../api/schema";
import { ago } from "../../state/format";
import { LIMITS } from "../../state/keys";
import { Button } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { amount } from "./amounts";

const words: Record<string, string> = { run: "run code", read: "look", admin: "admin" };

export function Scopes({ scopes }: { scopes: string[] }) {
  return (
    <span className="inline-flex flex-wrap gap-1">
      {scopes.map((scope) => (
        <span key={scope} className={classes("rounded-md px-1.5 text-2xs font-medium whitespace-nowrap", scope === "admin" ? "bg-warn-soft text-warn" : "bg-accent-soft text-accent")}>
          {words[scope] ?? scope}
        </span>
      ))}
    </span>
  );
}

const limitsOf = (key: KeyAnswer): string =>
  LIMITS.filter(({ name }) => key.limits[name] !== undefined)
    .map(({ name, title, unit }) => `${title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}: ${amount(key.limits[name] ?? 0, unit)}`)
    .join(", ");

const day = (time: number): string => new Date(time * 1000).toLocaleDateString();
const lastUse = (key: KeyAnswer): string => (key.used === null ? "never" : ago(key.used * 1000));

/** All keys: a table on a desk, cards on a phone. */
export function KeyTable({ all, currentId, onRevoke }: { all: KeyAnswer[]; currentId: string; onRevoke: (key: KeyAnswer) => void }) {
  const [withRevoked, setWithRevoked] = useState(false);
  const revoked = all.filter((key) => key.revoked !== null).length;
  const shown = all.filter((key) => withRevoked || key.revoked === null);
  const revoke = (key: KeyAnswer) =>
    key.revoked === null ? (
      <Button size="small" look="danger" aria-label={`Revoke ${key.name}`} onClick={() => onRevoke(key)}>Revoke</Button>
    ) : (
      <span className="text-2xs text-ink-faint">revoked {day(key.revoked)}</span>
    );
  const name = (key: KeyAnswer) => (
    <>
      <span className={classes("font-medium break-words", key.revoked !== null && "line-through")}>{key.name}</span>
      {key.id === currentId && <span className="ml-2 rounded-md bg-sunken px-1.5 py-px text-2xs text-ink-soft">this browser</span>}
    </>
  );
  const cell = "px-4 py-2 align-baseline";
  return (
    <>
      <div className="pane max-md:hidden">
        <table className="w-full">
          <thead className="border-b border-line text-left text-2xs text-ink-faint">
            <tr>
              {["Name", "Owner", "May", "Limits", "Created", "Last used"].map((title) => (
                <th key={title} scope="col" className="px-4 py-2 font-medium">{title}</th>
              ))}
              <th scope="col" className="px-4 py-2"><span className="sr-only">Revoke</span></th>
            </tr>
          </thead>
          <tbody>
            {shown.map((key) => (
              <tr key={key.id} className={classes("border-b border-line last:border-0", key.revoked !== null && "text-ink-faint")}>
                <th scope="row" className={`${cell} text-left font-normal`}>{name(key)}</th>
                <td className={cell}>{key.owner}</td>
                <td className={cell}><Scopes scopes={key.scopes} /></td>
                <td className={`${cell} max-w-64 text-xs text-ink-soft first-letter:uppercase`}>{limitsOf(key) || "none"}</td>
                <td className={`${cell} whitespace-nowrap text-ink-soft tabular-nums`}>{day(key.created)}</td>
                <td className={`${cell} whitespace-nowrap text-ink-soft tabular-nums`}>{lastUse(key)}</td>
                <td className={`${cell} text-right whitespace-nowrap`}>{revoke(key)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <ul aria-label="Keys" className="flex flex-col gap-2 md:hidden">
        {shown.map((key) => (
          <li key={key.id} className="pane flex flex-col gap-1.5 px-4 py-3">
            <div className="flex items-start justify-between gap-3">
              <span className="min-w-0">{name(key)}</span>
              {revoke(key)}
            </div>
            <p className="flex flex-wrap items-baseline gap-2 text-xs text-ink-soft">
              {key.owner} <Scopes scopes={key.scopes} />
            </p>
            <p className="text-2xs text-ink-faint">
              Used {lastUse(key)}, created {day(key.created)}{limitsOf(key) && `; ${limitsOf(key)}`}
            </p>
          </li>
        ))}
      </ul>
      {revoked > 0 && (
        <Button size="small" look="quiet" className="mt-2" aria-pressed={withRevoked} onClick={() => setWithRevoked(!withRevoked)}>
          {withRevoked ? "Hide" : "Show"} {revoked} revoked {revoked === 1 ? "key" : "keys"}
        </Button>
      )}
    </>
  );
}
