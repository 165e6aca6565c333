import { useMemo } from "react";
import { openFile } from "../../state/documents";
import { shownOutputs } from "../../state/notebook/outputs";
import { attempt } from "../../state/toasts";
import { Display } from "../output/Display";
import { ErrorView } from "../output/ErrorView";
import type { Place } from "../output/links";
import { TextView } from "../output/TextView";

/** The outputs that the file has, shown like those of a run. */
export function SavedOutputs({ outputs, count }: { outputs: unknown[]; count: number | null }) {
  const pieces = useMemo(() => shownOutputs(outputs), [outputs]);
  const go = ({ path, line, column }: Place) => {
    if (path !== null) attempt(() => openFile(path, { line, column }));
  };
  return pieces.map((piece, index) =>
    piece.type === "text" ? (
      <TextView key={index} lines={piece.lines} version={piece.lines.version} go={go} ours={count} isLive={false} />
    ) : piece.type === "display" ? (
      <Display key={index} display={piece.display} number={index + 1} />
    ) : (
      <ErrorView key={index} error={piece.error} go={go} ours={count} isTold={false} />
    ),
  );
}
