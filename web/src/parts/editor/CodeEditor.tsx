import { useEffect, useRef } from "react";
import { app, isDark } from "../../state/app";
import { offer } from "../../state/commands";
import { cursor, typing } from "../../state/cursor";
import { documents, edit, reveal } from "../../state/documents";
import { cellsOf } from "../../state/cells";
import { monacoLanguageOf } from "../../state/languages";
import { runCellAt } from "../../state/running";
import { useStore } from "../../state/store";
import { runEnded } from "../../state/runs";
import { EditorKeys } from "./EditorKeys";
import { showFailures } from "./failures";
import { monaco, type Monaco } from "./monaco";
import "./python/help";

type Editor = Monaco.editor.IStandaloneCodeEditor;

const views = new Map<string, Monaco.editor.ICodeEditorViewState | null>();

/** The models of open files: created when first shown, disposed with their tab. */
function modelOf(path: string, text: string): Monaco.editor.ITextModel {
  const uri = monaco.Uri.file(path);
  return monaco.editor.getModel(uri) ?? monaco.editor.createModel(text, monacoLanguageOf(path), uri);
}

let takingOver = false;

/** Shows a text that somebody else has written, or that comes from a draft. Undo brings the earlier text back. */
function takeOver(model: Monaco.editor.ITextModel, path: string): void {
  const text = documents.get().byPath[path]?.text;
  // Monaco has one kind of line end in a file.
  if (text === undefined || takingOver || plainLines(model.getValue()) === plainLines(text)) return;
  takingOver = true;
  try {
    model.pushStackElement();
    model.pushEditOperations([], [difference(model, text)], () => null);
    model.pushStackElement();
  } finally {
    takingOver = false;
  }
}

/** Only the part that differs is replaced, so that the cursor stays where it is. */
function difference(model: Monaco.editor.ITextModel, text: string): Monaco.editor.IIdentifiedSingleEditOperation {
  const [was, now] = [plainLines(model.getValue()), plainLines(text)];
  let start = 0;
  while (start < was.length && was[start] === now[start]) start++;
  let end = 0;
  while (end < Math.min(was.length, now.length) - start && was[was.length - 1 - end] === now[now.length - 1 - end]) end++;
  const before = was.slice(0, start).split("\n");
  const middle = was.slice(start, was.length - end).split("\n");
  const [line, column] = [before.length, (before.at(-1)?.length ?? 0) + 1];
  const last = (middle.at(-1)?.length ?? 0) + (middle.length === 1 ? column : 1);
  return { range: new monaco.Range(line, column, line + middle.length - 1, last), text: now.slice(start, now.length - end) };
}

const plainLines = (text: string): string => (text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text);

export const themeName = (): string => (isDark() ? "cloche-dark" : "cloche-light");

/** Monaco with the active file. Typed text goes to `documents`, and changes by others come from there. */
export default function CodeEditor({ path }: { path: string }) {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  const shownPath = useRef<string | null>(null);
  useStore(app, (state) => state.dark);
  const hasTerminal = useStore(app, (state) => state.terminal);

  useEffect(() => {
    if (!host.current) return;
    const made = monaco.editor.create(host.current, {
      model: null,
      theme: themeName(),
      automaticLayout: true,
      fontFamily: '"JetBrains Mono Variable", ui-monospace, Menlo, Consolas, monospace',
      fontSize: 13,
      lineHeight: 21,
      fontLigatures: false,
      padding: { top: 10, bottom: 120 },
      minimap: { enabled: false },
      scrollBeyondLastLine: false,
      smoothScrolling: true,
      cursorSmoothCaretAnimation: "on",
      renderLineHighlight: "line",
      roundedSelection: true,
      bracketPairColorization: { enabled: false },
      guides: { indentation: true },
      lineNumbersMinChars: 3,
      folding: true,
      glyphMargin: false,
      fixedOverflowWidgets: true,
      quickSuggestions: { other: true, comments: false, strings: false },
      tabSize: 4,
      detectIndentation: true,
      stickyScroll: { enabled: false },
      overviewRulerLanes: 2,
      overviewRulerBorder: false,
      hideCursorInOverviewRuler: true,
      scrollbar: { verticalScrollbarSize: 10, horizontalScrollbarSize: 10, useShadows: false },
      ariaLabel: "Code editor",
      accessibilitySupport: "auto",
      wordBasedSuggestions: "currentDocument",
    });
    editor.current = made;
    const parts = [
      made.onDidChangeModelContent(() => {
        const now = shownPath.current;
        const model = made.getModel();
        if (now && model && !takingOver) edit(now, model.getValue());
        if (model && monaco.editor.getModelMarkers({ owner: "run", resource: model.uri }).length > 0) {
          queueMicrotask(() => monaco.editor.setModelMarkers(model, "run", []));
        }
      }),
      made.onDidChangeCursorSelection(({ selection }) => {
        const model = made.getModel();
        if (!model) return;
        // A selection within one line runs as it is; one over several lines is extended to whole lines.
        const whole = selection.startLineNumber === selection.endLineNumber ? selection : selection.setStartPosition(selection.startLineNumber, 1);
        cursor.set({
          line: selection.positionLineNumber,
          column: selection.positionColumn,
          selection: selection.isEmpty() ? "" : model.getValueInRange(whole),
          from: selection.startLineNumber,
        });
      }),
      monaco.editor.onDidChangeMarkers(() => countProblems(made)),
      { dispose: offerActions(made) },
      decorateCells(made),
      showFailures(made),
      {
        dispose: typing.on((text) => {
          made.focus();
          made.trigger("variables", "type", { text });
        }),
      },
      runLenses(made),
    ];
    const stop = reveal.on(({ path: wanted, line, column }) => {
      // The tab may have to come first.
      setTimeout(() => {
        if (shownPath.current !== wanted) return;
        made.setPosition({ lineNumber: line, column });
        made.revealLineInCenterIfOutsideViewport(line);
        made.focus();
      }, 60);
    });
    return () => {
      stop();
      for (const part of parts) part.dispose();
      if (shownPath.current) views.set(shownPath.current, made.saveViewState());
      made.dispose();
      editor.current = null;
      shownPath.current = null;
    };
  }, []);

  useEffect(() => {
    const made = editor.current;
    if (!made) return;
    if (shownPath.current && shownPath.current !== path) views.set(shownPath.current, made.saveViewState());
    const model = modelOf(path, documents.get().byPath[path]?.text ?? "");
    shownPath.current = path;
    made.setModel(model);
    takeOver(model, path);
    const view = views.get(path);
    if (view) made.restoreViewState(view);
    if (!document.activeElement || document.activeElement === document.body) made.focus();
    countProblems(made);
    closeOthers();
  }, [path]);

  // Not by rendering, which happens later: a key that is pressed in between would bring the old text back.
  useEffect(() => {
    let known = documents.get().byPath[path]?.text;
    return documents.subscribe(() => {
      const text = documents.get().byPath[path]?.text;
      if (text === known) return;
      known = text;
      const model = editor.current?.getModel();
      if (model && shownPath.current === path) takeOver(model, path);
    });
  }, [path]);

  // A terminal that is hidden takes the focus with it.
  useEffect(() => {
    if (!hasTerminal && document.activeElement === document.body) editor.current?.focus();
  }, [hasTerminal]);

  useEffect(() => monaco.editor.setTheme(themeName()));

  return (
    <div className="flex h-full flex-col">
      <div ref={host} className="min-h-0 w-full flex-1" data-testid="editor" />
      <EditorKeys editor={() => editor.current} />
    </div>
  );
}

function closeOthers(): void {
  const open = new Set(documents.get().open);
  for (const model of monaco.editor.getModels()) {
    if (model.uri.scheme === "file" && !open.has(model.uri.path)) {
      views.delete(model.uri.path);
      model.dispose();
    }
  }
}

function countProblems(editor: Editor): void {
  const model = editor.getModel();
  const markers = model ? monaco.editor.getModelMarkers({ resource: model.uri }) : [];
  const errors = markers.filter((marker) => marker.severity === monaco.MarkerSeverity.Error).length;
  const warnings = markers.filter((marker) => marker.severity === monaco.MarkerSeverity.Warning).length;
  const was = cursor.get().problems;
  if (was.errors !== errors || was.warnings !== warnings) cursor.set({ problems: { errors, warnings } });
}

/** Compiler messages for a run's files, until they are edited. */
runEnded.on((run) => {
  for (const model of monaco.editor.getModels()) {
    const path = model.uri.path;
    if (["typescript", "javascript"].includes(model.getLanguageId())) continue; // Monaco reports the same, and sooner
    const found = (run.result?.diagnostics ?? []).filter((one) => path === one.file || path.endsWith(`/${one.file}`));
    if (path !== run.asked.path && found.length === 0) continue;
    const moved = run.asked.kind === "cell" ? run.asked.line : 0;
    monaco.editor.setModelMarkers(
      model,
      "run",
      found.map((one) => {
        const line = Math.min(model.getLineCount(), Math.max(1, one.line + moved));
        const word = model.getWordAtPosition({ lineNumber: line, column: Math.max(1, one.column) });
        return {
          severity: one.severity === "error" ? monaco.MarkerSeverity.Error : monaco.MarkerSeverity.Warning,
          message: one.message,
          ...(one.code ? { code: one.code } : {}),
          startLineNumber: line,
          endLineNumber: line,
          startColumn: word?.startColumn ?? Math.max(1, one.column),
          endColumn: word?.endColumn ?? model.getLineMaxColumn(line),
        };
      }),
    );
  }
});

/** Lines that begin a cell get a rule above them. */
function decorateCells(editor: Editor): Monaco.IDisposable {
  const marks = editor.createDecorationsCollection();
  const draw = () => {
    const model = editor.getModel();
    const cells = model ? cellsOf(model.getValue()) : [];
    marks.set(
      cells.length < 2
        ? []
        : cells.map((cell) => ({
            range: new monaco.Range(cell.start + 1, 1, cell.start + 1, 1),
            options: { isWholeLine: true, className: "cell-begins" },
          })),
    );
  };
  // Deferred: decorations set during a change event would trigger another change event.
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = window.setTimeout(draw, 50);
  };
  const parts = [editor.onDidChangeModel(soon), editor.onDidChangeModelContent(soon)];
  return {
    dispose: () => {
      clearTimeout(timer);
      parts.forEach((part) => part.dispose());
    },
  };
}

/** "Run cell" above each cell. */
function runLenses(editor: Editor): Monaco.IDisposable {
  const command = editor.addCommand(0, (_: unknown, start: number) => runCellAt(start));
  return monaco.languages.registerCodeLensProvider(["python", "javascript", "typescript", "shell"], {
    provideCodeLenses(model) {
      const cells = cellsOf(model.getValue());
      if (cells.length < 2 || !command) return { lenses: [], dispose: () => undefined };
      return {
        lenses: cells.map((cell) => ({
          range: new monaco.Range(cell.start + 1, 1, cell.start + 1, 1),
          command: { id: command, title: "▷ Run cell", arguments: [cell.start] },
        })),
        dispose: () => undefined,
      };
    },
  });
}

/** Adds Monaco's commands to our palette. */
function offerActions(editor: Editor): () => void {
  const actions = editor
    .getSupportedActions()
    .filter((action) => action.label && !/quickCommand|inspectTokens|toggleHighContrast/i.test(action.id))
    .map((action) => ({
      id: `editor:${action.id}`,
      title: action.label,
      group: "Editor",
      run: () => {
        editor.focus();
        void action.run();
      },
    }));
  const format = {
    id: "format",
    title: "Format this file",
    group: "Editor",
    keys: "shift+alt+f",
    run: () => {
      editor.focus();
      void editor.getAction("editor.action.formatDocument")?.run();
    },
  };
  return offer(...actions.filter((action) => action.id !== "editor:editor.action.formatDocument"), format);
}
