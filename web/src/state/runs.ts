/** Runs, started here or elsewhere, followed to their end and kept with their output. */

import * as api from "../api/cloche";
import { isLast, runEvent, type RunEvent } from "../api/events";
import { ApiProblem, explain } from "../api/http";
import type { DisplayAnswer, ErrorAnswer, ResultAnswer, RunAnswer, SandboxAnswer } from "../api/schema";
import { follow } from "../api/sse";
import { worded } from "../api/words";
import { keep, recall } from "./kept";
import { titleOf } from "./languages";
import { Lines } from "./lines";
import { Collected } from "./notebook/outputs";
import { lasting, left, opened, sandbox, theSandbox } from "./sandbox";
import { sha256 } from "./sha256";
import { createStore, Signal } from "./store";

/** The output of a run, in order. */
export type Piece =
  | { type: "text"; lines: Lines }
  | { type: "display"; display: DisplayAnswer; key: number }
  | { type: "error"; error: ErrorAnswer };

export type RunKind = "cell" | "program";

export interface Asked {
  code: string;
  language: string;
  kind: RunKind;
  /** The source file, and the line (from 0) where the code begins. */
  path: string | null;
  line: number;
  /** The key of the notebook's cell. */
  cell?: string;
  title: string;
  context?: string;
  stdin?: string;
  args?: string[];
  env?: Record<string, string>;
  timeout?: number | null;
}

export type Phase = "starting" | "running" | "done" | "lost";

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

let lastKey = 0;

/** One run. When it changes, `changed` notifies its views at most once a frame. */
export class Run {
  readonly key = ++lastKey;
  readonly changed = new Signal<void>();
  phase: Phase = "starting";
  runId: string | null = null;
  commandId: string | null = null;
  pieces: Piece[] = [];
  result: ResultAnswer | null = null;
  /** Why there is no result. */
  problem: { message: string; hint: string } | null = null;
  connected = true;
  /** It waits for input. */
  waiting = false;
  collapsed: boolean;
  /** The outputs of a notebook's cell, which shows and keeps them. */
  readonly collected: Collected | null;
  began = Date.now();
  version = 0;
  missed = false;
  /** It was undone: nothing of it is left in variables and files. */
  undone = false;
  /** The bytes of output that came as events. */
  private received = 0;
  /** The step before the program starts: "compile" … */
  step = "";
  /** The server's record of a run that ended before this page opened. */
  asOf: RunAnswer | null = null;
  private isRecalled = false;
  private willTell = false;
  private clearNext = false;

  constructor(
    readonly asked: Asked,
    /** Did somebody else start it: another tab, a chat, an agent? */
    readonly isOthers = false,
  ) {
    const isOfNotebook = asked.path?.toLowerCase().endsWith(".ipynb") ?? false;
    this.collected = isOfNotebook ? new Collected() : null;
    this.collapsed = isOfNotebook;
  }

  get isOver(): boolean {
    return this.phase === "done" || this.phase === "lost";
  }

  get hasFailed(): boolean {
    return this.problem !== null || (this.result !== null && (this.result.error !== null || this.result.exit_code !== 0));
  }

  get hasText(): boolean {
    return this.pieces.some((piece) => piece.type === "text");
  }

  /** Is the output here incomplete? A result may keep less than the events have shown, and says `truncated`, too. */
  get isCut(): boolean {
    if (!this.result?.truncated) return false;
    const { stdout, stderr } = this.result;
    const isShortened = !this.isRecalled && this.received > byteLength(stdout) + byteLength(stderr);
    return !isShortened || this.received >= (sandbox.get().record?.limits.output ?? Infinity);
  }

  /** Does somebody at this page answer when it reads input? */
  get takesInput(): boolean {
    return this.phase === "running" && this.asked.stdin === undefined && !this.isOthers;
  }

  /** Does it ask for something that nobody else should read? */
  get asksForSecret(): boolean {
    const last = this.pieces[this.pieces.length - 1];
    const prompt = last?.type === "text" ? (last.lines.all[last.lines.all.length - 1]?.text ?? "") : "";
    return /\b(pass(word|phrase|code)|secret|PIN|api[ -]?key)\b[^\n]{0,60}$/i.test(prompt);
  }

  /** The digest of its code, by which the server's records name it. */
  get digest(): string {
    return this.asOf?.code_sha256 ?? sha256(new TextEncoder().encode(this.asked.code));
  }

  /** The whole output as text; slow if there is much. */
  get text(): string {
    return this.pieces.map((piece) => (piece.type === "text" ? piece.lines.text : "")).filter(Boolean).join("\n");
  }

  take(event: RunEvent): void {
    this.collected?.take(event);
    if (this.clearNext && event.kind !== "clear") {
      this.pieces = [];
      this.clearNext = false;
    }
    switch (event.kind) {
      case "started":
        this.phase = "running";
        this.step = "";
        this.runId = event.run_id || this.runId;
        break;
      case "building":
        this.step = event.step;
        break;
      case "stdout":
      case "stderr":
        this.received += byteLength(event.text);
        this.textPiece().push(event.kind, event.text);
        break;
      case "waiting":
        this.waiting = event.waiting;
        break;
      case "result":
        this.show(event.result, event.update);
        break;
      case "clear":
        this.clearNext = true; // at the next output, so that a redrawn picture does not flicker
        break;
      case "error":
        this.fail(event.error);
        break;
      case "exit":
        for (const display of event.result.results ?? []) this.showAtEnd(display);
        this.finish(event.result);
        break;
      case "end":
        this.finish(event.result);
        break;
      case "gap":
        this.missed = true;
        break;
    }
    this.tell();
  }

  finish(result: ResultAnswer): void {
    this.result = result;
    this.phase = "done";
    if (result.error && !this.pieces.some((piece) => piece.type === "error")) this.fail(result.error);
    this.tell();
  }

  /** Shows the output from the result, because the events are gone. */
  recall(result: ResultAnswer): void {
    if (this.pieces.length === 0) {
      this.isRecalled = true;
      for (const { stream, text } of result.logs ?? []) this.take({ kind: stream === "stderr" ? "stderr" : "stdout", text });
      for (const display of result.results ?? []) this.take({ kind: "result", result: display, update: false });
    }
    this.finish(result);
  }

  lose(problem: unknown): void {
    this.problem = explain(problem);
    this.phase = "lost";
    this.tell();
  }

  /** Redraws the run with the next frame. */
  tell(): void {
    this.version++;
    if (this.willTell) return;
    this.willTell = true;
    const draw = () => {
      this.willTell = false;
      this.changed.emit();
    };
    // A hidden page has no frames, but its title and the tests need the change.
    if (document.visibilityState === "visible") requestAnimationFrame(draw);
    else setTimeout(draw, 100);
  }

  private textPiece(): Lines {
    const last = this.pieces[this.pieces.length - 1];
    if (last?.type === "text") return last.lines;
    const lines = new Lines();
    this.pieces = [...this.pieces, { type: "text", lines }];
    return lines;
  }

  private show(display: DisplayAnswer, update: boolean): void {
    const key = ++lastKey;
    const known = update && display.display_id !== null
      ? this.pieces.findIndex((piece) => piece.type === "display" && piece.display.display_id === display.display_id)
      : -1;
    if (known >= 0) this.pieces = this.pieces.map((piece, index) => (index === known ? { type: "display", display, key } : piece));
    else this.pieces = [...this.pieces, { type: "display", display, key }];
  }

  /** Shows what a program has left to be displayed; if it has printed the same as text, in the place of that. */
  private showAtEnd(display: DisplayAnswer): void {
    const text = display.mime["text/plain"];
    const printed = typeof text === "string" ? text.replace(/\n$/, "").split("\n") : [];
    for (const [index, piece] of this.pieces.entries()) {
      const parts = piece.type === "text" ? piece.lines.without(printed) : null;
      if (!parts) continue;
      const [before, after] = parts.map((lines): Piece[] => (lines.isBlank ? [] : [{ type: "text", lines }]));
      this.pieces = [...this.pieces.slice(0, index), ...(before ?? []), { type: "display", display, key: ++lastKey }, ...(after ?? []), ...this.pieces.slice(index + 1)];
      return;
    }
    this.show(display, false);
  }

  private fail(error: ErrorAnswer): void {
    this.pieces = [...this.pieces, { type: "error", error: { ...error, hint: worded(error.hint) } }];
  }
}

export const runs = createStore<{ all: Run[]; loading: boolean }>({ all: [], loading: false });
/** A run has begun, ours or somebody else's. */
export const runBegan = new Signal<Run>();
/** A run has ended, ours or somebody else's. */
export const runEnded = new Signal<Run>();

/** Runs from before this page were added. */
export const runsRecovered = new Signal<void>();

let leaving = new AbortController();

function add(run: Run): void {
  runs.set(({ all }) => ({ all: [...all, run] }));
  runBegan.emit(run);
}

export const running = (): Run[] => runs.get().all.filter((run) => !run.isOver);

/** Run code in the open sandbox. */
export function start(asked: Asked): Run {
  const run = new Run(asked);
  add(run);
  const id = theSandbox();
  void (asked.kind === "cell" ? runCell(id, run) : runProgram(id, run))
    .catch((problem: unknown) => run.lose(problem))
    .finally(() => runEnded.emit(run));
  return run;
}

async function runCell(id: string, run: Run): Promise<void> {
  const { asked } = run;
  await follow({
    begin: async (signal) => {
      const body = {
        code: asked.code,
        language: asked.language,
        // A person can answer a program that reads input, unless input was given beforehand.
        ...(asked.stdin === undefined ? { interactive: true } : { stdin: asked.stdin }),
        ...(asked.context === undefined ? {} : { context: asked.context }),
        ...(asked.env && Object.keys(asked.env).length > 0 ? { env: asked.env } : {}),
        ...(asked.timeout ? { timeout: asked.timeout } : {}),
      };
      const response = await api.startCell(id, body, signal);
      run.runId = response.headers.get("Cloche-Run");
      if (run.runId) remember(run);
      return response;
    },
    ...following(run),
  });
  await settle(run);
}

const following = (run: Run) => ({
  address: () => (run.runId ? api.runEvents(run.runId) : null),
  onEvent: (event: { id: string; kind: string; data: string }) => {
    const known = runEvent(event);
    if (known) run.take(known);
  },
  onConnected: (connected: boolean) => {
    run.connected = connected;
    run.tell();
  },
  isLast,
  signal: leaving.signal,
});

/** Takes the outcome from the record, if the events are gone or broke off. */
async function settle(run: Run): Promise<void> {
  if (run.isOver || leaving.signal.aborted || !run.runId) return;
  const record = await api.run(run.runId);
  const result = record.result as unknown as ResultAnswer | null;
  if (result) run.recall(result);
  else run.lose(new ApiProblem(410, "gone", "The run ended without a result.", ""));
}

async function runProgram(id: string, run: Run): Promise<void> {
  const { asked } = run;
  const unbuffered = asked.language === "python" ? { PYTHONUNBUFFERED: "1" } : {};
  const command = await api.startCommand(id, {
    entry: asked.path,
    language: asked.language,
    args: asked.args ?? [],
    env: { ...unbuffered, ...asked.env },
    timeout: asked.timeout ?? null,
    stdin: asked.stdin ?? true,
  });
  run.commandId = command.id;
  if (asked.stdin !== undefined) await api.writeToCommand(id, command.id, "", true);
  await follow({ ...following(run), address: () => api.commandEvents(id, command.id) });
  if (!run.isOver && !leaving.signal.aborted) run.lose(new ApiProblem(410, "gone", "The program ended because its sandbox ended.", ""));
}

/** Stops a run; its outcome says so. */
export async function stop(run: Run): Promise<void> {
  if (run.isOver) return;
  if (run.commandId) await api.killCommand(theSandbox(), run.commandId);
  else if (run.runId) await api.cancelRun(run.runId);
}

export async function stopAll(): Promise<void> {
  await Promise.all(running().map(stop));
}

/** Sends input to a run. */
export async function write(run: Run, data: string, eof = false): Promise<void> {
  if (run.commandId) await api.writeToCommand(theSandbox(), run.commandId, data, eof);
  else if (run.runId) await api.writeToRun(run.runId, data, eof);
}

export function clearRuns(): void {
  // A run that ended before this page opened is over, even if its output is still being loaded.
  const isOver = (run: Run): boolean => run.isOver || run.asOf !== null;
  const gone = runs.get().all.filter((run) => isOver(run) && run.runId).map((run) => run.runId as string);
  const { record } = sandbox.get();
  if (record) keep(`cleared.${lasting(record)}`, [...recall<string[]>(`cleared.${lasting(record)}`, []), ...gone].slice(-300));
  runs.set(({ all }) => ({ all: all.filter((run) => !isOver(run)) }));
}

export function collapseAll(collapsed: boolean): void {
  for (const run of runs.get().all) {
    run.collapsed = collapsed;
    run.tell();
  }
}

// --- runs that were there before this page

/** Where the code of a run came from, which the server does not keep. */
type Origin = Pick<Asked, "title" | "path" | "line" | "code">;
const MAX_REMEMBERED = 60;
const MAX_CODE = 4000;

function remember(run: Run): void {
  const { record } = sandbox.get();
  if (!record || !run.runId) return;
  const { title, path, line, code } = run.asked;
  const known = recall<[string, Origin][]>(`runs.${lasting(record)}`, []);
  keep(`runs.${lasting(record)}`, [...known, [run.runId, { title, path, line, code: code.slice(0, MAX_CODE) }]].slice(-MAX_REMEMBERED));
}

async function recover(id: string, key: string): Promise<void> {
  runs.set({ loading: true });
  try {
    const found = (await api.runs(id, 20)).reverse();
    const cleared = new Set(recall<string[]>(`cleared.${key}`, []));
    const origins = new Map(recall<[string, Origin][]>(`runs.${key}`, []));
    const known = new Set(runs.get().all.map((run) => run.runId));
    const recovered = found
      .filter((record) => !cleared.has(record.id) && !known.has(record.id) && record.language !== "command")
      .map((record) => recoveredRun(record, origins.get(record.id)));
    runs.set(({ all }) => ({ all: [...recovered, ...all], loading: false }));
    runsRecovered.emit();
    // Newest first, because these are visible. One after the other, because a browser has few connections.
    for (const run of recovered.filter((one) => !one.isOver && !one.asOf)) void attach(run);
    for (const run of recovered.filter((one) => one.asOf).reverse()) await attach(run);
  } catch (problem) {
    if (!leaving.signal.aborted) console.warn("Earlier runs are not available.", problem);
  } finally {
    runs.set({ loading: false });
  }
}

function recoveredRun(record: RunAnswer, origin: Origin | undefined): Run {
  const asked: Asked = {
    code: "",
    title: origin ? "" : "from elsewhere",
    path: null,
    line: 0,
    ...origin,
    language: record.language,
    kind: "cell",
    context: record.context,
  };
  const run = new Run(asked, !origin);
  run.runId = record.id;
  run.began = record.started * 1000;
  run.phase = "running";
  run.asOf = record.state === "running" ? null : record;
  return run;
}

/** The titles of runs that were lost with an ended sandbox. */
export async function lostRuns(record: SandboxAnswer): Promise<string[]> {
  const origins = new Map(recall<[string, Origin][]>(`runs.${lasting(record)}`, []));
  const found = (await api.runs(record.id, 20)).filter((run) => run.state === "interrupted");
  return found.map((run) => origins.get(run.id)?.title || titleOf(run.language)).reverse();
}

async function attach(run: Run): Promise<void> {
  try {
    await follow(following(run));
  } catch (problem) {
    if (!(problem instanceof ApiProblem)) throw problem;
  }
  await settle(run).catch((problem: unknown) => run.lose(problem));
  runEnded.emit(run);
}

opened.on(({ record, live }) => {
  leaving = new AbortController();
  void recover(record.id, lasting(record));
  live.happened.on((happened) => {
    const id = happened.run_id;
    if (happened.kind !== "run.started" || !id) return;
    // Our own runs are known from the header of their answer, which may arrive after this event.
    setTimeout(() => {
      if (leaving.signal.aborted || runs.get().all.some((run) => run.runId === id)) return;
      // A run of ours may have ended, and been cleared from the page, within this time.
      if (recall<string[]>(`cleared.${lasting(record)}`, []).includes(id)) return;
      if (runs.get().all.some((run) => run.runId === null && run.asked.kind === "cell" && !run.isOver)) return;
      const asked: Asked = { code: happened.code ?? "", language: "", kind: "cell", path: null, line: 0, title: "from elsewhere" };
      const run = new Run(asked, true);
      run.runId = id;
      run.phase = "running";
      add(run);
      void attach(run);
    }, 400);
  });
});

left.on(() => {
  leaving.abort();
  runs.set({ all: [] });
});
