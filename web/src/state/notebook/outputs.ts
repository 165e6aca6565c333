/** Outputs of cells: from the events of a run to the form of notebooks, and from there to what the page shows. Needs no DOM. */

import type { RunEvent } from "../../api/events";
import type { DisplayAnswer } from "../../api/schema";
import type { Thawed } from "../frozen";
import { Lines } from "../lines";
import { joined, linesOf } from "./format";

type Json = Record<string, unknown>;

const OURS = /^application\/vnd\.cloche\./; // forms that only this page reads
const BINARY = /^(image\/(?!svg)|audio\/|video\/|application\/pdf)/;
const JSON_FORM = /^application\/(json|.*[+.]json)$/;
/** Characters of one stream, and of everything, that a notebook keeps of a cell: its file must stay one that can be opened. */
const MAX_STREAM = 256 << 10;
const MAX_CELL = 2 << 20;
const MAX_SHOWN = 1000; // outputs of a cell

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

/** Collects the outputs of one run. */
export class Collected {
  private all: Json[] = [];
  private readonly byId = new Map<string, Json>();
  private clearNext = false;

  take(event: RunEvent): void {
    if (event.kind === "clear") {
      this.clearNext = true;
      return;
    }
    if (this.clearNext) {
      this.all = [];
      this.clearNext = false;
    }
    if (event.kind === "stdout" || event.kind === "stderr") this.write(event.kind, event.text);
    else if (event.kind === "result") this.show(event.result, event.update);
    else if (event.kind === "error") {
      const { name, kind, message, traceback, traceback_ansi: coloured } = event.error;
      const trace = coloured ?? traceback ?? message;
      this.all.push({ output_type: "error", ename: name ?? kind, evalue: message, traceback: trace.split("\n") });
    }
  }

  /** The outputs as a notebook keeps them. */
  outputs(count: number | null): Json[] {
    let left = MAX_CELL;
    return this.all.map((output) => {
      const kept = finished(output, count, left);
      left -= JSON.stringify(kept).length;
      return kept;
    });
  }

  private write(name: string, text: string): void {
    const last = this.all.at(-1);
    if (last?.output_type !== "stream" || last.name !== name) this.all.push({ output_type: "stream", name, text });
    else last.text = shortened(`${String(last.text)}${text}`, 2 * MAX_STREAM);
  }

  private show(display: DisplayAnswer, update: boolean): void {
    const data = Object.fromEntries(Object.entries(display.mime).filter(([mime]) => !OURS.test(mime)).map(([mime, value]) => [mime, dataOf(mime, value)]));
    const fields = { data, metadata: isObject(display.metadata) ? display.metadata : {} };
    const known = update && display.display_id !== null ? this.byId.get(display.display_id) : undefined;
    if (known) {
      Object.assign(known, fields);
      return;
    }
    const shown: Json = { output_type: display.is_main ? "execute_result" : "display_data", ...fields };
    this.all.push(shown);
    if (display.display_id !== null) this.byId.set(display.display_id, shown);
  }
}

/** Only forms of JSON may be anything else than a text. */
function dataOf(mime: string, value: unknown): unknown {
  if (JSON_FORM.test(mime)) return value;
  if (typeof value !== "string") return linesOf(JSON.stringify(value));
  return BINARY.test(mime) ? value : linesOf(value);
}

function finished(output: Json, count: number | null, left: number): Json {
  if (output.output_type === "stream") return { ...output, text: linesOf(shortened(withoutOverwritten(String(output.text)), Math.min(MAX_STREAM, Math.max(left, 1000)))) };
  const numbered = output.output_type === "execute_result" ? { ...output, execution_count: count } : output;
  if (JSON.stringify(numbered).length <= left || !isObject(numbered.data)) return numbered;
  const plain = shortened(joined(numbered.data["text/plain"]), 10_000);
  const reason = "(This output was too large to be saved in the notebook. Run the cell to see it.)";
  return { ...numbered, data: { "text/plain": linesOf(plain ? `${plain}\n${reason}` : reason) } };
}

/** Progress bars write one line again and again: only its last state is kept. */
const withoutOverwritten = (text: string): string =>
  text.includes("\r") ? text.split("\n").map((line) => line.replace(/\r+$/, "").replace(/^.*\r/s, "")).join("\n") : text;

function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const part = Math.floor(most / 2);
  return `${text.slice(0, part)}\n[… output left out …]\n${text.slice(-part)}`;
}

/** What the page shows of the outputs in a file. Anybody may have written them: whatever has another form is left out. */
export function shownOutputs(outputs: unknown[]): Thawed[] {
  const found: Thawed[] = [];
  for (const output of outputs.slice(0, MAX_SHOWN)) {
    if (!isObject(output)) continue;
    if (output.output_type === "stream") {
      const last = found.at(-1);
      const lines = last?.type === "text" ? last.lines : new Lines();
      if (last?.type !== "text") found.push({ type: "text", lines });
      lines.push(output.name === "stderr" ? "stderr" : "stdout", joined(output.text));
    } else if (output.output_type === "error") {
      const trace = Array.isArray(output.traceback) ? output.traceback.filter((line) => typeof line === "string").join("\n") : "";
      const error = { kind: "exception", name: joined(output.ename), message: joined(output.evalue), hint: "", traceback: null, traceback_ansi: trace, raised: [] };
      found.push({ type: "error", error });
    } else if (isObject(output.data)) {
      const metadata = isObject(output.metadata) ? output.metadata : {};
      found.push({ type: "display", display: { mime: output.data, metadata, is_main: output.output_type === "execute_result", display_id: null } });
    }
  }
  return found;
}
