/** Marks the lines at which the last run failed. */

import { failures, failuresIn, failuresInCell, fileChanged, firstLine, type Failure } from "../../state/failures";
import { monaco, type Monaco } from "./monaco";
import "./failures.css";

const OWNER = "failure";
/** Shows the failures of the file in this editor. An edit ends them. */
export function showFailures(editor: Monaco.editor.IStandaloneCodeEditor): Monaco.IDisposable {
  const edited = editor.onDidChangeModelContent(() => {
    const model = editor.getModel();
    if (model) fileChanged(model.uri.path);
  });
  const shown = show(editor, (model) => failuresIn(failures.get().all, model.uri.path));
  return { dispose: () => (edited.dispose(), shown.dispose()) };
}

/** Shows the failures of a notebook's cell in its editor. */
export const showFailuresOfCell = (editor: Monaco.editor.IStandaloneCodeEditor, key: string): Monaco.IDisposable =>
  show(editor, (model) => failuresInCell(failures.get().all, key, model.getValue(monaco.editor.EndOfLinePreference.LF)));

function show(editor: Monaco.editor.IStandaloneCodeEditor, failing: (model: Monaco.editor.ITextModel) => Failure[]): Monaco.IDisposable {
  const marks = editor.createDecorationsCollection();
  const draw = () => {
    const model = editor.getModel();
    if (!model) return;
    const here = failing(model).filter((one) => one.line <= model.getLineCount());
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
  const parts = [editor.onDidChangeModel(soon), editor.onDidChangeModelContent(soon)];
  const stop = failures.subscribe(soon);
  soon();
  return {
    dispose: () => {
      stop();
      cancelAnimationFrame(frame);
      parts.forEach((part) => part.dispose());
    },
  };
}
