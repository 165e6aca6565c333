import { useEffect, useRef } from "react";
import { app, isDark } from "../../state/app";
import { useStore } from "../../state/store";

const MAX_COLOURED = 20_000; // characters

/** The code of a cell that is not being edited: plain at first, and in colours as soon as the editor is loaded. */
export function Source({ text, language }: { text: string; language: string }) {
  const code = useRef<HTMLElement>(null);
  const dark = useStore(app, (state) => state.dark);
  useEffect(() => {
    const element = code.current;
    if (!element) return;
    element.textContent = text;
    if (!text.trim() || text.length > MAX_COLOURED) return;
    let isOld = false;
    void import("../editor/monaco").then(async ({ monaco }) => {
      if (isOld) return;
      // Monaco replaces the text by spans that it makes itself.
      element.className = "";
      await monaco.editor.colorizeElement(element, { theme: `cloche-${isDark() ? "dark" : "light"}`, mimeType: language });
    });
    return () => {
      isOld = true;
    };
  }, [text, language, dark]);
  return (
    <pre className="px-2.5 py-1.5 font-mono text-[13px] leading-[21px] break-words whitespace-pre-wrap">
      <code ref={code} />
    </pre>
  );
}
