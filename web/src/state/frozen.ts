/** Converts runs to a shareable document and back. Needs no DOM. */

import type { DisplayAnswer, ErrorAnswer, SharedPiece, SharedRun } from "../api/schema";
import { Lines, type StreamName } from "./lines";
import type { Piece } from "./runs";

const HEAD = 400; // lines of a flood that are shared, at its beginning
const TAIL = 1200; // and at its end

/** Output: consecutive lines of a stream become one piece. */
function textPieces(lines: Lines): SharedPiece[] {
  const { all } = lines;
  const cut = all.length > HEAD + TAIL;
  const left = all.length - HEAD - TAIL + lines.dropped;
  const kept = cut ? [...all.slice(0, HEAD), null, ...all.slice(-TAIL)] : all;
  const pieces: SharedPiece[] = [];
  for (const line of kept) {
    const stream: StreamName = line?.stream ?? "stdout";
    const text = line ? `${line.text}\n` : `\x1b[2m… ${left.toLocaleString("en")} lines are left out …\x1b[0m\n`;
    const last = pieces.at(-1);
    if (last?.type === stream) last.text = (last.text ?? "") + text;
    else pieces.push({ type: stream, text });
  }
  return pieces;
}

/** Converts the output of a run for sharing. */
export function frozen(pieces: Piece[]): SharedPiece[] {
  return pieces.flatMap((piece): SharedPiece[] => {
    switch (piece.type) {
      case "text":
        return textPieces(piece.lines);
      case "display":
        return [{ type: "display", text: "", mime: piece.display.mime, metadata: piece.display.metadata }];
      case "error":
        return [{ type: "error", text: "", error: piece.error }];
    }
  });
}

export type Thawed =
  | { type: "text"; lines: Lines }
  | { type: "display"; display: DisplayAnswer }
  | { type: "error"; error: ErrorAnswer };

/** Converts shared output for display. */
export function thawed({ pieces }: SharedRun): Thawed[] {
  const found: Thawed[] = [];
  for (const piece of pieces) {
    if (piece.type === "display") {
      found.push({ type: "display", display: { mime: piece.mime ?? {}, metadata: piece.metadata ?? {}, is_main: false, display_id: null } });
    } else if (piece.type === "error") {
      if (piece.error) found.push({ type: "error", error: piece.error });
    } else {
      const last = found.at(-1);
      const lines = last?.type === "text" ? last.lines : new Lines();
      if (last?.type !== "text") found.push({ type: "text", lines });
      lines.push(piece.type, piece.text ?? "");
    }
  }
  return found;
}
