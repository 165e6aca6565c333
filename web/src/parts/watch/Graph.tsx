import { useId } from "react";

interface Props {
  label: string;
  /** The current value and the limit. */
  value: string;
  of: string;
  /** Times in milliseconds, and values. */
  points: { time: number; value: number }[];
  limit: number;
  /** The time span that is shown. */
  span: number;
  tint: string;
  /** The least maximum of the scale. */
  least: number;
  /** Formats a value. */
  shown: (value: number) => string;
}

const WIDTH = 240;
const HEIGHT = 56;

/** The top of the scale: the limit if it is near, else the next round number, so that small values are visible. */
export function scaleOf(most: number, limit: number, least: number): number {
  if (most > limit / 3) return Math.max(limit, most);
  return Math.min(limit, 2 ** Math.ceil(Math.log2(Math.max(most * 1.25, least))));
}

/** A quantity over the last minutes, with its limit as a line. */
export function Graph({ label, value, of, points, limit, span, tint, least, shown }: Props) {
  const fill = useId();
  const end = points.at(-1)?.time ?? 0;
  const scale = scaleOf(Math.max(0, ...points.map((point) => point.value)), limit, least);
  const top = scale * 1.08;
  const x = (time: number) => WIDTH - ((end - time) / span) * WIDTH;
  const y = (amount: number) => HEIGHT - 1 - (amount / top) * (HEIGHT - 3);
  const line = points.map((point, index) => `${index === 0 ? "M" : "L"}${x(point.time).toFixed(1)} ${y(point.value).toFixed(1)}`).join("");
  const first = points[0];
  const isLimitSeen = limit <= top;
  return (
    <figure className="px-3 py-2.5" role="group" aria-label={`${label}: ${value} of ${of}`}>
      <figcaption className="mb-1 flex items-baseline justify-between gap-2">
        <span className="text-xs text-ink-soft">{label}</span>
        <span className="text-2xs text-ink-faint">
          <span className="text-[0.9375rem] font-medium text-ink tabular-nums" data-figure={label}>{value}</span> of {of}
        </span>
      </figcaption>
      <div className="relative">
        <span aria-hidden="true" className="absolute top-0.5 left-1.5 text-[0.625rem] text-ink-faint tabular-nums">{shown(scale)}</span>
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" className="block h-14 w-full overflow-hidden rounded-md bg-sunken" aria-hidden="true">
          <defs>
            <linearGradient id={fill} x1="0" y1="0" x2="0" y2="1">
              <stop offset="0" stopColor={tint} stopOpacity="0.32" />
              <stop offset="1" stopColor={tint} stopOpacity="0.03" />
            </linearGradient>
          </defs>
          {[0.25, 0.5, 0.75].map((part) => (
            <line key={part} x1="0" x2={WIDTH} y1={HEIGHT * part} y2={HEIGHT * part} stroke="var(--line)" vectorEffect="non-scaling-stroke" />
          ))}
          {isLimitSeen && (
            <line x1="0" x2={WIDTH} y1={y(limit)} y2={y(limit)} stroke="var(--danger)" strokeDasharray="4 4" strokeOpacity="0.75" vectorEffect="non-scaling-stroke" data-limit />
          )}
          {first && (
            <>
              <path d={`${line}L${WIDTH} ${HEIGHT}L${x(first.time).toFixed(1)} ${HEIGHT}Z`} fill={`url(#${fill})`} />
              <path d={line} fill="none" stroke={tint} strokeWidth="1.5" strokeLinejoin="round" vectorEffect="non-scaling-stroke" />
            </>
          )}
        </svg>
      </div>
    </figure>
  );
}
