/** Server-sent events: parsed piece by piece, and followed across broken connections. */

import { ApiProblem, request } from "./http";

export interface ServerEvent {
  id: string;
  kind: string;
  /** Unparsed JSON, so that events nobody wants cost nothing. */
  data: string;
}

/** Takes text in pieces of any size and returns whole events. */
export class EventParser {
  private rest = "";
  private id = "";
  private kind = "";
  private data: string[] = [];

  push(text: string): ServerEvent[] {
    const found: ServerEvent[] = [];
    const whole = this.rest + text;
    let start = 0;
    for (;;) {
      const end = whole.indexOf("\n", start);
      if (end < 0) break;
      const line = whole.charCodeAt(end - 1) === 13 && end > start ? whole.slice(start, end - 1) : whole.slice(start, end);
      start = end + 1;
      if (line === "") {
        if (this.data.length > 0) found.push({ id: this.id, kind: this.kind || "message", data: this.data.join("\n") });
        this.kind = "";
        this.data = [];
      } else {
        this.take(line);
      }
    }
    this.rest = whole.slice(start);
    return found;
  }

  private take(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment: the server is still there
    const field = colon < 0 ? line : line.slice(0, colon);
    const from = line.charCodeAt(colon + 1) === 32 ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : line.slice(from);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.kind = value;
    else if (field === "id") this.id = value;
  }
}

/** How long one turn may block the page. */
const TURN_MS = 12;

/** Yields, so that the page can paint and react to input. */
export function breathe(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(null);
  });
}

/** Events of one answer, until its end. */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  let since = performance.now();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const event of parser.push(value)) {
        yield event;
        if (performance.now() - since > TURN_MS) {
          await breathe();
          since = performance.now();
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export interface Following {
  /** The address to resume from after a broken connection; null while it is unknown. */
  address: () => string | null;
  /** The first request, if it differs from `address` (a POST that starts a run). */
  begin?: (signal: AbortSignal) => Promise<Response>;
  /** The last event that has been seen. */
  after?: string;
  onEvent: (event: ServerEvent) => void;
  /** Called when the connection breaks (false) and when it is restored (true). */
  onConnected?: (connected: boolean) => void;
  /** Recognises the last event; if a response ends without it, the rest is requested. */
  isLast?: (event: ServerEvent) => boolean;
  signal: AbortSignal;
  /** Milliseconds before the n-th attempt; only tests change this. */
  pause?: (tries: number) => number;
}

const backoff = (tries: number): number => Math.min(5000, 150 * 2 ** tries) * (0.75 + Math.random() / 2);

/** Follows events until the last one, each exactly once and in order, whatever the connection does. */
export async function follow(following: Following): Promise<void> {
  const { address, begin, onEvent, onConnected, isLast, signal, pause = backoff } = following;
  let last = following.after ?? "";
  let tries = 0;
  let first = begin;
  let isDone = false;
  for (;;) {
    try {
      const response = first ? await first(signal) : await again(address(), last, signal);
      first = undefined;
      onConnected?.(true);
      let isNew = false;
      for await (const event of eventsOf(response)) {
        tries = 0;
        if (event.id && last && Number(event.id) <= Number(last)) continue;
        if (event.id) last = event.id;
        isNew = true;
        onEvent(event);
        isDone ||= isLast?.(event) ?? false; // read to the end: leaving earlier would look like a failure
      }
      if (isDone || !isLast || !isNew) return; // the response ended properly and had nothing new
    } catch (problem) {
      if (signal.aborted || isDone) return;
      const lost = problem instanceof ApiProblem && !problem.isOffline && problem.status < 500;
      if (lost || (first && address() === null)) throw problem; // the request was refused, or never started
      first = undefined;
    }
    if (signal.aborted) return;
    onConnected?.(false);
    await waited(pause(tries++), signal);
    if (signal.aborted) return;
  }
}

async function again(address: string | null, last: string, signal: AbortSignal): Promise<Response> {
  if (address === null) throw new ApiProblem(410, "gone", "The connection was lost before the run started.", "Run it again.");
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (last) headers["Last-Event-ID"] = last;
  return request(address, { headers, signal });
}

function waited(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    // Do not wait when the network is back.
    globalThis.addEventListener?.("online", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
