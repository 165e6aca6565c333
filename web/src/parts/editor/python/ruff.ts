/** Squiggles and formatting for Python, by Ruff. */

import type { Diagnostic } from "@astral-sh/ruff-wasm-web";
import { runEnded, runs } from "../../../state/runs";
import { note } from "../../../state/toasts";
import { monaco, type Monaco } from "../monaco";
import type { Answer, Question } from "./ruff.worker";
import RuffWorker from "./ruff.worker?worker";
import { whole } from "./surroundings";

const PAUSE_MS = 350;
const OWNER = "ruff";

let worker: Worker | null = null;
let last = 0;
const waiting = new Map<number, (answer: Answer) => void>();

function ask(kind: Question["kind"], text: string): Promise<Answer> {
  if (!worker) {
    worker = new RuffWorker();
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      waiting.get(data.id)?.(data);
      waiting.delete(data.id);
    };
  }
  const id = ++last;
  worker.postMessage({ id, kind, text } satisfies Question);
  return new Promise((resolve) => waiting.set(id, resolve));
}

// IPython's magics and shell lines are not Python, but no mistake either.
const MAGIC = /^(\s*)([!%?].*|.*\?)$/gm;
/** Turns such lines into comments of the same length, so that positions stay the same. */
export const withoutMagics = (text: string): string =>
  text.replace(MAGIC, (line, indent: string, rest: string) => (/[\w)\]}'"]\?$|^[!%?]/.test(rest) ? `${indent}#${"-".repeat(Math.max(0, rest.length - 1))}` : line));

function marker(found: Diagnostic, before: number): Monaco.editor.IMarkerData {
  const isWrong = found.code === null || /^(E9|F82|F63|F7|PLE|invalid-syntax)/.test(found.code);
  const isUnused = found.tags.includes("unnecessary") || /^F(401|841)/.test(found.code ?? "");
  return {
    severity: isWrong ? monaco.MarkerSeverity.Error : monaco.MarkerSeverity.Warning,
    message: found.message,
    ...(found.code ? { code: found.code } : {}),
    source: "Ruff",
    startLineNumber: found.start_location.row - before,
    startColumn: found.start_location.column,
    endLineNumber: found.end_location.row - before,
    endColumn: found.end_location.column,
    tags: isUnused ? [monaco.MarkerTag.Unnecessary] : [],
  };
}

const GIVEN = /^[ \t]*(?:async +)?(?:def|class) +(\w+)|^ *((?:\w+ *, *)*\w+) *(?::[^=\n]*)?=(?!=)|\bas +(\w+)|^[ \t]*(?:from +[\w.]+ +)?import +([\w, ]+)|^[ \t]*for +(\w+)/gm;

/** Names that runs of this session have defined. */
function givenNames(): Set<string> {
  const given = new Set<string>();
  for (const { asked } of runs.get().all) {
    if (asked.kind !== "cell" || (asked.language && asked.language !== "python")) continue;
    for (const match of asked.code.matchAll(GIVEN)) for (const name of match.slice(1).flatMap((one) => one?.split(/\W+/) ?? [])) given.add(name);
  }
  return given;
}

async function check(model: Monaco.editor.ITextModel): Promise<void> {
  const version = model.getVersionId();
  const { text, before } = whole(model);
  const { found: all = [] } = await ask("check", withoutMagics(text));
  if (model.isDisposed() || model.getVersionId() !== version) return;
  // An earlier run of the session may have defined the name, even one that this page does not know: only a warning.
  const given = givenNames();
  const found = all.filter(({ start_location: { row } }) => row > before && row <= before + model.getLineCount());
  const isGiven = (one: Diagnostic) => one.code === "F821" && given.has(/`(\w+)`/.exec(one.message)?.[1] ?? "");
  const markers = found.filter((one) => !isGiven(one)).map((one) => (one.code === "F821" ? { ...marker(one, before), severity: monaco.MarkerSeverity.Warning } : marker(one, before)));
  monaco.editor.setModelMarkers(model, OWNER, markers);
}

function watch(model: Monaco.editor.ITextModel): void {
  if (model.getLanguageId() !== "python") return;
  let timer = window.setTimeout(() => void check(model), 0);
  model.onDidChangeContent(() => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void check(model), PAUSE_MS);
  });
  model.onWillDispose(() => clearTimeout(timer));
}

export function begin(): void {
  runEnded.on(() => {
    for (const model of monaco.editor.getModels()) if (model.getLanguageId() === "python") void check(model);
  });
  for (const model of monaco.editor.getModels()) watch(model);
  monaco.editor.onDidCreateModel(watch);
  monaco.languages.registerDocumentFormattingEditProvider("python", {
    displayName: "Ruff",
    async provideDocumentFormattingEdits(model) {
      const text = model.getValue();
      const answer = await ask("format", text);
      if (answer.text === undefined) {
        note("The file cannot be formatted", "Fix the syntax error in it first.");
        return [];
      }
      return answer.text === text ? [] : [{ range: model.getFullModelRange(), text: answer.text }];
    },
  });
}
