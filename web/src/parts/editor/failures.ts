/** Marks the lines at which the last run failed. */

import { failures, fileChanged } from "../../state/failures";
import { monaco, type Monaco } from "./monaco";
import "./failures.css";

const OWNER = "failure";
const SHOWN = 80; // characters at the line; a hint has the whole message

const firstLine = (message: string): string => {
  const line = message.split("\n", 1)[0] ?? "";
  return line.length > SHOWN ? `${line.slice(0, SHOWN)}…` : line;
};

/** Shows the failures of the file in this editor. */
export function showFailures(editor: Monaco.editor.IStandaloneCodeEditor): Monaco.IDisposable {
  const marks = editor.createDecorationsCollection();
  const draw = () => {
    const model = editor.getModel();
    if (!model) return;
    const here = failures.get().all.filter((one) => one.path === model.uri.path && one.line <= model.getLineCount());
    marks.set(
      here.map(({ line, message }) => ({
        range: new monaco.Range(line, 1, line, model.getLineMaxColumn(line)),
        options: {
          isWholeLine: true,
          className: message ? "failing-line" : "calling-line",
          linesDecorationsClassName: message ? "failing-mark" : "calling-mark",
          ...(message ? { after: { content: `    ${firstLine(message)}`, inlineClassName: "failing-message" } } : {}),
        },
      })),
    );
    monaco.editor.setModelMarkers(
      model,
      OWNER,
      here
        .filter((one) => one.message)
        .map(({ line, message }) => ({
          severity: monaco.MarkerSeverity.Error,
          message,
          source: "last run",
          startLineNumber: line,
          endLineNumber: line,
          startColumn: model.getLineFirstNonWhitespaceColumn(line) || 1,
          endColumn: model.getLineMaxColumn(line),
        })),
    );
  };
  // Decorations that are set during an event of the model would trigger another one.
  let frame = 0;
  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(draw);
  };
  const parts = [
    editor.onDidChangeModel(soon),
    editor.onDidChangeModelContent(() => {
      const model = editor.getModel();
      if (model) fileChanged(model.uri.path);
    }),
  ];
  const stop = failures.subscribe(soon);
  return {
    dispose: () => {
      stop();
      cancelAnimationFrame(frame);
      parts.forEach((part) => part.dispose());
    },
  };
}
