import { useEffect, useRef } from "react";
import { isDark } from "../../state/app";
import { monacoLanguageOf } from "../../state/languages";
import { monaco } from "../editor/monaco";

const LINE = 18;
const MAX_HEIGHT = 360;

/** Two versions of a text, line by line. */
export default function Difference({ path, before, after }: { path: string; before: string; after: string }) {
  const place = useRef<HTMLDivElement>(null);
  const lines = Math.max(before.split("\n").length, after.split("\n").length) + 2;
  useEffect(() => {
    if (!place.current) return;
    const language = monacoLanguageOf(path);
    const original = monaco.editor.createModel(before, language);
    const modified = monaco.editor.createModel(after, language);
    const editor = monaco.editor.createDiffEditor(place.current, {
      theme: `cloche-${isDark() ? "dark" : "light"}`,
      readOnly: true,
      automaticLayout: true,
      renderSideBySide: place.current.clientWidth > 560,
      fontSize: 12,
      lineHeight: LINE,
      fontFamily: '"JetBrains Mono Variable", ui-monospace, monospace',
      minimap: { enabled: false },
      scrollBeyondLastLine: false,
      renderOverviewRuler: false,
      hideUnchangedRegions: { enabled: true },
      originalAriaLabel: `${path} before`,
      modifiedAriaLabel: `${path} after`,
    });
    editor.setModel({ original, modified });
    return () => {
      editor.dispose();
      original.dispose();
      modified.dispose();
    };
  }, [path, before, after]);
  return <div ref={place} data-testid="difference" className="border-y border-line" style={{ height: Math.min(MAX_HEIGHT, lines * LINE + 8) }} />;
}
