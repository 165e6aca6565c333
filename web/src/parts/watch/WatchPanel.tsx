import { useEffect } from "react";
import type { SandboxAnswer } from "../../api/schema";
import { bytes, seconds } from "../../state/format";
import { sandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import { costOf, KEPT, limitOf, look, watch, type Sample } from "../../state/watch";
import { Pane } from "../../ui/Pane";
import { Loading } from "../../ui/states";
import { Graph } from "./Graph";

const cores = (value: number): string => (value < 0.005 ? "0 %" : `${Math.round(value * 100)} %`);

const graphs = [
  { what: "cpu", label: "CPU", shown: cores, of: (limit: number) => `${limit} ${limit === 1 ? "core" : "cores"}`, tint: "var(--accent)", least: 0.125 },
  { what: "memory", label: "Memory", shown: bytes, of: bytes, tint: "var(--info)", least: 1 << 20 },
  { what: "disk", label: "Disk", shown: bytes, of: bytes, tint: "var(--warn)", least: 1 << 10 },
  { what: "processes", label: "Processes", shown: String, of: String, tint: "var(--ansi-magenta)", least: 4 },
] as const;

/** Live usage of the sandbox with its limits and estimated cost. */
export function WatchPanel() {
  const { samples, last } = useStore(watch, (state) => state);
  const record = useStore(sandbox, (state) => state.record);
  const connected = useStore(sandbox, (state) => state.connected);
  useEffect(look, []);
  return (
    <Pane title="Watch">
      {!record || !last ? (
        <Loading label={connected ? "Measuring" : "Waiting for the connection"} />
      ) : (
        <div className="h-full overflow-y-auto pb-2">
          {!connected && <p role="status" className="bg-warn-soft px-3 py-1.5 text-2xs text-warn">Reconnecting.</p>}
          <div className="divide-y divide-line">
            {graphs.map(({ what, label, shown, of, tint, least }) => (
              <Graph
                key={what}
                label={label}
                value={shown(samples.at(-1)?.[what] ?? 0)}
                of={of(limitOf(record.limits, what))}
                points={samples.map((sample: Sample) => ({ time: sample.time, value: sample[what] }))}
                limit={limitOf(record.limits, what)}
                span={KEPT * 1000}
                tint={tint}
                least={least}
                shown={shown}
              />
            ))}
          </div>
          <Totals record={record} />
        </div>
      )}
    </Pane>
  );
}

function Totals({ record }: { record: SandboxAnswer }) {
  const { last, looked, rates } = useStore(watch, (state) => state);
  if (!last) return null;
  const alive = Date.now() / 1000 - record.created;
  return (
    <section aria-label="Totals" className="mx-3 mt-1 flex flex-col gap-2 border-t border-line pt-2.5 text-xs">
      <dl className="grid grid-cols-2 gap-x-3 gap-y-1 [&_dd]:text-right [&_dd]:tabular-nums [&_dt]:text-ink-soft">
        <dt>CPU time</dt>
        <dd>{seconds(last.cpu_time)}</dd>
        <dt>Peak memory</dt>
        <dd>{bytes(last.memory_peak)}</dd>
        <dt>Alive for</dt>
        <dd>{seconds(Math.max(1, Math.round(alive)))}</dd>
      </dl>
      {rates && <Price cost={costOf(last, looked, alive, rates)} rates={rates} />}
    </section>
  );
}

function Price({ cost, rates }: { cost: ReturnType<typeof costOf>; rates: { cpu_hour: number; memory_gb_hour: number; currency: string } }) {
  const isFree = rates.cpu_hour === 0 && rates.memory_gb_hour === 0;
  const money = (value: number) =>
    new Intl.NumberFormat("en", { style: "currency", currency: rates.currency, minimumFractionDigits: 2, maximumFractionDigits: value < 0.1 ? 5 : 2 }).format(value);
  return (
    <div className="rounded-lg border border-line bg-sunken p-2.5">
      <p className="flex items-baseline justify-between gap-2">
        <span className="text-ink-soft">Cost so far</span>
        <span className="text-[0.9375rem] font-medium tabular-nums" data-figure="cost">{isFree ? "Free" : money(cost.total)}</span>
      </p>
      <p className="mt-1 text-2xs text-ink-faint">
        {isFree
          ? `This runs on your own machine: ${hours(cost.cpuHours)} of CPU time and ${gb(cost.memoryHours)} of memory. With rates in the settings (rate_cpu_hour, rate_memory_gb_hour) this becomes an estimate.`
          : `An estimate: ${hours(cost.cpuHours)} of CPU time at ${money(rates.cpu_hour)} per hour, and ${gb(cost.memoryHours)} of memory at ${money(rates.memory_gb_hour)}.`}
      </p>
    </div>
  );
}

const hours = (value: number): string => (value < 0.1 ? seconds(value * 3600) : `${value.toFixed(2)} h`);
const gb = (value: number): string => `${value < 0.01 ? value.toFixed(4) : value.toFixed(2)} GB hours`;
