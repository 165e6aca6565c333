/** Monaco with the languages and workers that we need, and no others; loaded when the first file is opened. */

import type * as Monaco from "monaco";
import "../../../.monaco/monaco.css";
import address from "../../../.monaco/monaco.js?url";
import editorWorker from "../../../.monaco/editor.worker.js?url";
import jsonWorker from "../../../.monaco/json.worker.js?url";
import typeScriptWorker from "../../../.monaco/ts.worker.js?url";

// Included as it is: it is already bundled, and processing three megabytes again takes long.
const monaco = (await import(/* @vite-ignore */ address)) as typeof Monaco;

self.MonacoEnvironment = {
  getWorker(_: unknown, label: string): Worker {
    const worker = label === "typescript" || label === "javascript" ? typeScriptWorker : label === "json" ? jsonWorker : editorWorker;
    return new Worker(worker, { type: "module" });
  },
};

// Monaco rejects a promise that nobody awaits when a file is left while it looks for the same words: no error in its terms.
addEventListener("unhandledrejection", (event) => {
  if (event.reason instanceof Error && event.reason.name === "Canceled") event.preventDefault();
});

const { typescriptDefaults, javascriptDefaults, ScriptTarget, ModuleKind, ModuleResolutionKind } =
  monaco.languages.typescript;

for (const defaults of [typescriptDefaults, javascriptDefaults]) {
  defaults.setCompilerOptions({
    target: ScriptTarget.ES2020,
    module: ModuleKind.ESNext,
    moduleResolution: ModuleResolutionKind.NodeJs,
    lib: ["es2022", "dom"],
    allowJs: true,
    allowNonTsExtensions: true,
    strict: true,
    noEmit: true,
  });
  defaults.setEagerModelSync(true);
  // Cells share their variables and may await at the top level; packages of Node have no types here.
  defaults.setDiagnosticsOptions({ diagnosticCodesToIgnore: [1375, 1378, 2307, 2451, 2580, 2591, 7016, 80005] });
}
typescriptDefaults.addExtraLib(
  `declare const process: { argv: string[]; env: Record<string, string | undefined>; version: string; stdin: any; stdout: { write(text: string): boolean }; exit(code?: number): never; memoryUsage(): Record<string, number> };
   declare function require(name: string): any; declare const module: any; declare const __dirname: string;`,
  "cloche/node.d.ts",
);

const colours = {
  light: { canvas: "#fcfbf8", ink: "#1c211e", soft: "#4f5852", faint: "#5f6761", line: "#e2ddd0", accent: "#1f6b4f", raised: "#ffffff", chosen: "#e0eee6" },
  dark: { canvas: "#121614", ink: "#e7ebe8", soft: "#a9b2ac", faint: "#848e87", line: "#232a26", accent: "#7fd6ab", raised: "#1a201d", chosen: "#17332a" },
};

for (const name of ["light", "dark"] as const) {
  const { canvas, ink, soft, faint, line, accent, raised, chosen } = colours[name];
  const token = (light: string, dark: string) => (name === "light" ? light : dark);
  monaco.editor.defineTheme(`cloche-${name}`, {
    base: name === "light" ? "vs" : "vs-dark",
    inherit: true,
    rules: [
      { token: "comment", foreground: token("68726b", "7d877f"), fontStyle: "italic" },
      { token: "keyword", foreground: token("8a3d94", "d6a2e8") },
      { token: "string", foreground: token("1f6b4f", "8fd9b3") },
      { token: "number", foreground: token("a04a12", "eab07a") },
      { token: "type", foreground: token("0f6f78", "74cfd6") },
      { token: "delimiter", foreground: token("4f5852", "a9b2ac") },
      { token: "identifier", foreground: token("1c211e", "e7ebe8") },
      { token: "tag", foreground: token("8a3d94", "d6a2e8") },
      { token: "variable", foreground: token("26609f", "86b6f0") },
    ],
    colors: {
      "editor.background": canvas,
      "editor.foreground": ink,
      "editorLineNumber.foreground": faint,
      "editorLineNumber.activeForeground": ink,
      "editor.lineHighlightBackground": name === "light" ? "#f3f0e980" : "#1a201d80",
      "editor.lineHighlightBorder": "#00000000",
      "editor.selectionBackground": name === "light" ? "#1f6b4f33" : "#7fd6ab33",
      "editorCursor.foreground": accent,
      "editorIndentGuide.background1": line,
      "editorWidget.background": raised,
      "editorWidget.border": line,
      "editorWidget.foreground": ink,
      // Each of them: what a theme leaves out comes from Monaco's own, whose chosen entry is white on blue.
      "editorSuggestWidget.background": raised,
      "editorSuggestWidget.foreground": ink,
      "editorSuggestWidget.border": line,
      "editorSuggestWidget.highlightForeground": accent,
      "editorSuggestWidget.selectedBackground": chosen,
      "editorSuggestWidget.selectedForeground": ink,
      "editorSuggestWidget.selectedIconForeground": ink,
      "editorSuggestWidget.focusHighlightForeground": accent,
      "editorSuggestWidgetStatus.foreground": soft,
      "list.hoverBackground": chosen,
      "list.hoverForeground": ink,
      "list.activeSelectionBackground": chosen,
      "list.activeSelectionForeground": ink,
      "list.focusBackground": chosen,
      "list.focusForeground": ink,
      "list.highlightForeground": accent,
      "list.focusHighlightForeground": accent,
      descriptionForeground: soft,
      "textLink.foreground": accent,
      "editorHoverWidget.background": raised,
      "editorHoverWidget.foreground": ink,
      "editorHoverWidget.border": line,
      "editorGutter.background": canvas,
      "scrollbar.shadow": "#00000000",
      "editorOverviewRuler.border": "#00000000",
      "minimap.background": canvas,
      ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((depth) => [`editorBracketHighlight.foreground${depth}`, token("#4f5852", "#a9b2ac")])),
      focusBorder: accent,
    },
  });
}

export { monaco };
export type { Monaco };
