import { useEffect, useRef } from "react";
import { app, isDark } from "../../state/app";
import { failures, failuresInCell, firstLine, type Failure } from "../../state/failures";
import { useStore } from "../../state/store";
import "../editor/failures.css";

const MAX_COLOURED = 20_000; // characters

interface Props {
  text: string;
  language: string;
  cellKey: string;
}

/** The code of a cell that is not being edited: plain at first, and in colours as soon as the editor is loaded. */
export function Source({ text, language, cellKey }: Props) {
  const code = useRef<HTMLElement>(null);
  const dark = useStore(app, (state) => state.dark);
  const all = useStore(failures, (state) => state.all);
  const failing = failuresInCell(all, cellKey, text);
  const marked = JSON.stringify(failing.map(({ line, message }) => [line, message]));
  useEffect(() => {
    const element = code.current;
    if (!element) return;
    element.textContent = text;
    if (failing.length > 0) inLines(element, text);
    mark(element, failing);
    if (!text.trim() || text.length > MAX_COLOURED) return;
    let isOld = false;
    void import("../editor/monaco").then(async ({ monaco }) => {
      if (isOld) return;
      // Monaco replaces the text by spans that it makes itself, one for each line.
      element.className = "";
      element.textContent = text;
      await monaco.editor.colorizeElement(element, { theme: `cloche-${isDark() ? "dark" : "light"}`, mimeType: language });
      if (!isOld) mark(element, failing);
    });
    return () => {
      isOld = true;
    };
  }, [text, language, dark, marked]);
  return (
    <pre className="px-2.5 py-1.5 font-mono text-[13px] leading-[21px] break-words whitespace-pre-wrap">
      <code ref={code} />
    </pre>
  );
}

/** The text with an element for each line, as it is in colours. */
function inLines(element: HTMLElement, text: string): void {
  element.replaceChildren(
    ...text.split("\n").flatMap((line) => {
      const span = document.createElement("span");
      span.textContent = line;
      return [span, document.createElement("br")];
    }),
  );
}

/** Marks the lines at which the last run failed. */
function mark(element: HTMLElement, failing: Failure[]): void {
  const lines = [...element.children].filter((child) => child instanceof HTMLSpanElement);
  for (const { line, message } of failing) {
    const span = lines[line - 1];
    span?.classList.add("failing-source", message ? "failing-line" : "calling-line");
    // Not as text: somebody who copies the code does not want it.
    if (message) span?.setAttribute("data-failure", firstLine(message));
  }
}
