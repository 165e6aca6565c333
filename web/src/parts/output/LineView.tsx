import { memo, type ReactNode } from "react";
import type { Line } from "../../state/lines";
import { spans, withoutColours } from "./ansi";
import { places, type Place } from "./links";

export type Go = (place: Place) => void;

interface Props {
  line: Line;
  go?: Go | undefined;
  ours?: number | null;
}

/** One line of output, with its colours and its links. */
export const LineView = memo(function LineView({ line, go, ours = null }: Props) {
  return <>{line.text === "" ? "\u200b" : styled(line.text, line.style, go, ours)}</>;
});

/** A text with colours; places in files become links. */
export function styled(text: string, style: string, go?: Go, ours: number | null = null): ReactNode {
  const found = go && text.length < 2000 ? places(withoutColours(text), ours) : [];
  const pieces = spans(text, style);
  if (found.length === 0) return pieces.map((span, index) => <Piece key={index} {...span} />);
  const shown: ReactNode[] = [];
  let at = 0;
  for (const [index, span] of pieces.entries()) {
    let rest = span.text;
    let from = at;
    for (const place of found) {
      if (place.end <= from || place.start >= at + span.text.length) continue;
      const start = Math.max(place.start, from) - from;
      const end = Math.min(place.end, at + span.text.length) - from;
      if (start > 0) shown.push(<Piece key={`${index}.${from}`} {...span} text={rest.slice(0, start)} />);
      shown.push(
        <button
          key={`${index}.${from}.link`}
          type="button"
          onClick={() => go?.(place)}
          title={`Go to line ${place.line}`}
          className="cursor-pointer rounded-sm underline decoration-dotted underline-offset-2 hover:bg-hover hover:decoration-solid"
        >
          <Piece {...span} text={rest.slice(start, end)} />
        </button>,
      );
      rest = rest.slice(end);
      from += end;
    }
    if (rest) shown.push(<Piece key={`${index}.rest`} {...span} text={rest} />);
    at += span.text.length;
  }
  return shown;
}

function Piece({ text, classes, color, background }: { text: string; classes: string; color?: string; background?: string }) {
  if (!classes && !color && !background) return text;
  return (
    <span className={classes} style={{ ...(color ? { color } : {}), ...(background ? { background } : {}) }}>
      {text}
    </span>
  );
}
