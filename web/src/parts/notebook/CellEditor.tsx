import { useEffect, useRef } from "react";
import { app } from "../../state/app";
import { cursor } from "../../state/cursor";
import { cellRevealed, choose, notebooks, openNotebook, step, write } from "../../state/notebooks";
import { useStore } from "../../state/store";
import { themeName } from "../editor/CodeEditor";
import { showFailuresOfCell } from "../editor/failures";
import { monaco, type Monaco } from "../editor/monaco";
import "../editor/python/help";
import { surround } from "../editor/python/surroundings";

type Model = Monaco.editor.ITextModel;

const SCHEME = "cell"; // models of files have another, and go with their tabs
const models = new Map<string, { model: Model; path: string }>();

/** The model of a cell, which keeps its undo history as long as the notebook is open. */
function modelOf(path: string, key: string, source: string, language: string): Model {
  const known = models.get(key)?.model;
  if (known) {
    if (known.getLanguageId() !== language) monaco.editor.setModelLanguage(known, language);
    return known;
  }
  const model = monaco.editor.createModel(source, language, monaco.Uri.from({ scheme: SCHEME, path, fragment: key }));
  surround(model, () => around(path, key));
  models.set(key, { model, path });
  return model;
}

/** The code of the other cells. */
function around(path: string, key: string): { before: string; after: string } {
  const cells = notebooks.get().byPath[path]?.notebook.cells ?? [];
  const at = cells.findIndex((cell) => cell.key === key);
  const code = (some: typeof cells) => some.filter((cell) => cell.kind === "code").map((cell) => cell.source.trimEnd());
  return {
    before: code(cells.slice(0, at)).map((source) => `${source}\n`).join(""),
    after: code(cells.slice(at + 1)).map((source) => `\n${source}`).join(""),
  };
}

notebooks.subscribe(() => {
  const { byPath } = notebooks.get();
  for (const [key, { model, path }] of models) {
    if (byPath[path]) continue;
    models.delete(key);
    model.dispose();
  }
});

interface Props {
  path: string;
  cellKey: string;
  source: string;
  language: string;
  label: string;
  /** Where the person has clicked to edit. */
  at: { x: number; y: number } | null;
}

/** Monaco for the cell that is edited, as high as its text. */
export default function CellEditor({ path, cellKey, source, language, label, at }: Props) {
  const host = useRef<HTMLDivElement>(null);
  useStore(app, (state) => state.dark);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const model = modelOf(path, cellKey, source, language);
    if (model.getValue() !== source) model.setValue(source);
    const made = monaco.editor.create(element, {
      model,
      theme: themeName(),
      automaticLayout: true,
      fontFamily: '"JetBrains Mono Variable", ui-monospace, Menlo, Consolas, monospace',
      fontSize: 13,
      lineHeight: 21,
      fontLigatures: false,
      padding: { top: 6, bottom: 6 },
      lineNumbers: "off",
      lineDecorationsWidth: 10,
      lineNumbersMinChars: 0,
      glyphMargin: false,
      folding: false,
      minimap: { enabled: false },
      scrollBeyondLastLine: false,
      renderLineHighlight: "none",
      bracketPairColorization: { enabled: false },
      fixedOverflowWidgets: true,
      overviewRulerLanes: 0,
      hideCursorInOverviewRuler: true,
      overviewRulerBorder: false,
      scrollbar: { vertical: "hidden", horizontal: "hidden", alwaysConsumeMouseWheel: false, useShadows: false },
      wordWrap: "on",
      stickyScroll: { enabled: false },
      occurrencesHighlight: "off", // leaves an unhandled error behind when the editor goes soon after the cursor has moved
      ariaLabel: label,
      wordBasedSuggestions: "currentDocument",
    });
    const fit = (): void => {
      element.style.height = `${made.getContentHeight()}px`;
      made.layout();
    };
    fit();
    const isAtTop = made.createContextKey<boolean>("cellTop", true);
    const isAtEnd = made.createContextKey<boolean>("cellEnd", true);
    const tell = (): void => {
      const { positionLineNumber: line, positionColumn: column } = made.getSelection() ?? { positionLineNumber: 1, positionColumn: 1 };
      cursor.set({ line, column, selection: "", from: line });
      isAtTop.set(line === 1);
      isAtEnd.set(line === model.getLineCount());
    };
    const parts = [
      made.onDidContentSizeChange(fit),
      made.onDidChangeModelContent(() => write(path, cellKey, model.getValue())),
      made.onDidChangeCursorSelection(tell),
      showFailuresOfCell(made, cellKey),
      ...actions(made, path, cellKey),
    ];
    // Not by rendering, which happens later: a key that is pressed in between would bring the old text back.
    const stopFollowing = notebooks.subscribe(() => {
      const now = notebooks.get().byPath[path]?.notebook.cells.find((cell) => cell.key === cellKey)?.source;
      if (now !== undefined && now !== model.getValue(monaco.editor.EndOfLinePreference.LF)) model.setValue(now);
    });
    const reveal = cellRevealed.on(({ key, line }) => {
      if (key !== cellKey) return;
      made.setPosition({ lineNumber: line, column: 1 });
      made.focus();
    });
    const position = at ? made.getTargetAtClientPoint(at.x, at.y)?.position : null;
    if (position) made.setPosition(position);
    tell();
    made.focus();
    return () => {
      stopFollowing();
      reveal();
      for (const part of parts) part.dispose();
      made.dispose();
    };
  }, [path, cellKey, language]);

  useEffect(() => monaco.editor.setTheme(themeName()));

  return <div ref={host} data-testid="cell-editor" className="w-full overflow-hidden rounded-md" />;
}

const NOTHING_OPEN = "!suggestWidgetVisible && !findWidgetVisible && !parameterHintsVisible && !renameInputVisible && !inSnippetMode && !editorHasMultipleSelections";

/** Keys that lead out of the cell. They belong to this editor, not to all of them. */
function actions(editor: Monaco.editor.IStandaloneCodeEditor, path: string, key: string): Monaco.IDisposable[] {
  const leave = (by: number): void => {
    step(path, by);
    const next = openNotebook(path)?.active;
    if (next && next !== key) choose(path, next, true);
  };
  const { Escape, UpArrow, DownArrow } = monaco.KeyCode;
  return [
    { id: "cell.leave", label: "Leave the cell", keybindings: [Escape], when: NOTHING_OPEN, run: () => choose(path, key) },
    { id: "cell.up", label: "Edit the cell above", keybindings: [UpArrow], when: `cellTop && ${NOTHING_OPEN}`, run: () => leave(-1) },
    { id: "cell.down", label: "Edit the cell below", keybindings: [DownArrow], when: `cellEnd && ${NOTHING_OPEN}`, run: () => leave(1) },
  ].map(({ when, ...action }) => editor.addAction({ ...action, keybindingContext: when }));
}
