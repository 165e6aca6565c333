import { useState } from "react";
import type { DayAnswer } from "../../api/schema";
import { DAYS, isAdmin, keys, total } from "../../state/keys";
import { useStore } from "../../state/store";
import { classes } from "../../ui/classes";
import { amount, type Unit } from "./amounts";

type Measure = keyof DayAnswer;

const measures: { name: Measure; title: string; unit: Unit }[] = [
  { name: "runs", title: "Runs", unit: "count" },
  { name: "cpu_time", title: "CPU time", unit: "seconds" },
  { name: "bytes", title: "Data", unit: "bytes" },
];

const dayOf = (date: string): string => new Date(`${date}T00:00:00Z`).toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

/** What was used on each day, as bars and as a table, and by which key. */
export function Usage() {
  const { days, byKey, all, current } = useStore(keys, (state) => state);
  const [chosen, setChosen] = useState<Measure>("runs");
  const measure = measures.find((one) => one.name === chosen) ?? { name: "runs" as const, title: "Runs", unit: "count" as const };
  const whose = isAdmin(current) ? "all keys" : (current?.owner ?? "");
  return (
    <section aria-label="Usage">
      <div className="mb-2.5 flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        <h2 className="text-xs font-semibold text-ink-soft">Usage of {whose}, last {DAYS} days (UTC)</h2>
        <div role="group" aria-label="What is shown" className="flex gap-0.5 rounded-lg border border-line bg-sunken p-0.5">
          {measures.map(({ name, title }) => (
            <button
              key={name}
              type="button"
              aria-pressed={chosen === name}
              onClick={() => setChosen(name)}
              className={classes("rounded-md px-2.5 py-0.5 text-xs", chosen === name ? "bg-raised font-medium text-ink shadow-sm" : "text-ink-soft hover:text-ink")}
            >
              {title}
            </button>
          ))}
        </div>
      </div>
      <div className="pane p-4">
        <Bars days={days} {...measure} />
        <ByDay days={days} />
      </div>
      {all && <ByKey byKey={byKey} names={Object.fromEntries(all.map((key) => [key.id, `${key.name} (${key.owner})`]))} />}
    </section>
  );
}

function Bars({ days, name, title, unit }: { days: Record<string, DayAnswer>; name: Measure; title: string; unit: Unit }) {
  const values = Object.entries(days).map(([date, used]) => ({ date, value: used[name] }));
  const most = Math.max(...values.map((one) => one.value), 0);
  const sum = values.reduce((before, one) => before + one.value, 0);
  const first = values[0];
  const last = values.at(-1);
  return (
    <figure aria-label={`${title} by day: ${amount(sum, unit)} in all, at most ${amount(most, unit)} on one day`} role="group">
      <figcaption className="mb-3 flex items-baseline gap-2">
        <span className="text-2xl font-medium tabular-nums">{amount(sum, unit)}</span>
        <span className="text-xs text-ink-soft">{title.toLowerCase() === "runs" ? "runs" : `of ${title}`} in {DAYS} days</span>
      </figcaption>
      <div aria-hidden="true" className="flex h-28 items-end gap-px border-b border-line sm:gap-1">
        {values.map(({ date, value }) => (
          <div key={date} title={`${dayOf(date)}: ${amount(value, unit)}`} className="group flex h-full min-w-0 flex-1 items-end">
            <div
              className={classes("w-full rounded-t-sm transition-colors", value > 0 ? "bg-accent/80 group-hover:bg-accent" : "bg-transparent group-hover:bg-line")}
              style={{ height: value > 0 ? `max(3px, ${(value / most) * 100}%)` : "3px" }}
            />
          </div>
        ))}
      </div>
      <div aria-hidden="true" className="mt-1 flex justify-between text-2xs text-ink-faint">
        <span>{first && dayOf(first.date)}</span>
        <span>{last && "today"}</span>
      </div>
    </figure>
  );
}

const head = "py-1.5 pr-3 text-left text-2xs font-medium text-ink-faint";
const figure = "py-1.5 pl-3 text-right tabular-nums";

function Head({ first }: { first: string }) {
  return (
    <thead>
      <tr>
        <th scope="col" className={head}>{first}</th>
        {measures.map(({ name, title }) => (
          <th key={name} scope="col" className={`${figure} text-2xs font-medium text-ink-faint`}>{title}</th>
        ))}
      </tr>
    </thead>
  );
}

function Figures({ used }: { used: DayAnswer }) {
  return measures.map(({ name, unit }) => (
    <td key={name} className={figure}>{amount(used[name], unit)}</td>
  ));
}

function ByDay({ days }: { days: Record<string, DayAnswer> }) {
  const used = Object.entries(days).filter(([, day]) => day.runs > 0 || day.cpu_time > 0 || day.bytes > 0).reverse();
  if (used.length === 0) return <p className="mt-3 text-xs text-ink-faint">Nothing was used in this time. A run, an upload or a terminal shows up here.</p>;
  return (
    <details className="mt-3">
      <summary className="cursor-pointer rounded text-xs font-medium text-ink-soft hover:text-ink">Day by day</summary>
      <table className="mt-2 w-full text-xs">
        <Head first="Day" />
        <tbody>
          {used.map(([date, day]) => (
            <tr key={date} className="border-t border-line">
              <th scope="row" className="py-1.5 pr-3 text-left font-normal">{dayOf(date)}</th>
              <Figures used={day} />
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function ByKey({ byKey, names }: { byKey: Record<string, Record<string, DayAnswer>>; names: Record<string, string> }) {
  const rows = Object.entries(byKey)
    .map(([id, days]) => ({ id, used: total(Object.values(days)) }))
    .sort((one, other) => other.used.cpu_time - one.used.cpu_time);
  if (rows.length === 0) return null;
  return (
    <div className="pane mt-2.5 overflow-x-auto px-4 py-2.5">
      <table aria-label="Usage by key" className="w-full text-xs">
        <Head first="Key" />
        <tbody>
          {rows.map(({ id, used }) => (
            <tr key={id} className="border-t border-line">
              <th scope="row" className="max-w-64 truncate py-1.5 pr-3 text-left font-normal">{names[id] ?? "earlier keys"}</th>
              <Figures used={used} />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
