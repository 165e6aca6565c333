import { useLayoutEffect, useRef, useState } from "react";
import type { Lines } from "../../state/lines";
import { classes } from "../../ui/classes";
import { LineView, type Go } from "./LineView";

const FEW = 400; // up to so many lines are all drawn; of more, only the visible ones
const ROW = 18; // pixels
const HEIGHT = 432;
const AROUND = 12;

interface Props {
  lines: Lines;
  version: number;
  go: Go;
  ours: number | null;
  isLive: boolean;
  /** Lines that are shown elsewhere. */
  hidden?: Range | null;
}

export interface Range {
  start: number;
  end: number;
}

/** Output of a program: a few lines as they are, many in a scrolling window. */
export function TextView(props: Props) {
  return props.lines.all.length > FEW ? <Flood {...props} /> : <Few {...props} />;
}

const tint = (stream: string) => (stream === "stderr" ? "text-danger" : "");

function Few({ lines, go, ours, hidden }: Props) {
  if (hidden && lines.all.length === hidden.end - hidden.start) return null;
  return (
    <div className="py-1.5 font-mono text-xs leading-[18px] break-words whitespace-pre-wrap">
      {lines.all.map((line, index) => hidden && index >= hidden.start && index < hidden.end ? null : (
        <div
          key={index}
          data-stream={line.stream}
          className={classes("px-3", tint(line.stream), line.stream === "stderr" && "border-l-2 border-danger/50 pl-2.5")}
        >
          <LineView line={{ ...line }} go={go} ours={ours} />
        </div>
      ))}
    </div>
  );
}

function Flood({ lines, go, ours, isLive, version }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const wasLive = useRef(isLive);
  const [top, setTop] = useState(0);
  const count = lines.all.length;
  useLayoutEffect(() => {
    const element = box.current;
    // The last lines may come together with the end of the run.
    if (element && isAtEnd.current && (isLive || wasLive.current)) element.scrollTop = count * ROW;
    wasLive.current = isLive;
  }, [count, version, isLive]);
  const first = Math.max(0, Math.floor(top / ROW) - AROUND);
  const shown = lines.all.slice(first, Math.min(count, Math.ceil((top + HEIGHT) / ROW) + AROUND));
  return (
    <div>
      <div className="flex items-center justify-between border-b border-line px-3 py-1 text-2xs text-ink-faint">
        <span>
          {(count + lines.dropped).toLocaleString("en")} lines
          {lines.dropped > 0 && `, the first ${lines.dropped.toLocaleString("en")} not kept`}
        </span>
        <span className="flex gap-3">
          <button type="button" className="hover:text-ink" onClick={() => box.current?.scrollTo({ top: 0 })}>
            First
          </button>
          <button type="button" className="hover:text-ink" onClick={() => box.current?.scrollTo({ top: count * ROW })}>
            Last
          </button>
        </span>
      </div>
      <div
        ref={box}
        tabIndex={0}
        role="log"
        aria-label={`Output, ${count} lines`}
        aria-live="off"
        onScroll={(event) => {
          const element = event.currentTarget;
          // Only scrolling up leaves the end: more lines may have come since the page itself scrolled.
          if (element.scrollTop < lastTop.current - 2) isAtEnd.current = false;
          if (element.scrollTop + element.clientHeight >= element.scrollHeight - 2 * ROW) isAtEnd.current = true;
          lastTop.current = element.scrollTop;
          setTop(element.scrollTop);
        }}
        className="overflow-auto font-mono text-xs leading-[18px]"
        style={{ height: HEIGHT, contain: "strict" }}
      >
        <div style={{ height: count * ROW, position: "relative" }}>
          <div style={{ position: "absolute", top: first * ROW, minWidth: "100%" }}>
            {shown.map((line, index) => (
              <div
                key={first + index}
                data-stream={line.stream}
                className={classes("h-[18px] px-3 whitespace-pre", tint(line.stream))}
              >
                <LineView line={{ ...line }} go={go} ours={ours} />
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
