import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it, vi } from "vitest";
import { request } from "./http";
import { EventParser, eventsOf, follow, type ServerEvent } from "./sse";

const event = (id: number, kind: string, data: string) => `id: ${id}\nevent: ${kind}\ndata: ${data}\n\n`;

describe("the parser", () => {
  const text = `: cloche\n\n${event(1, "stdout", '{"text":"ä\\n"}')}: \n\nid: 2\nevent: end\ndata: one\ndata: two\n\n`;
  const wanted: ServerEvent[] = [
    { id: "1", kind: "stdout", data: '{"text":"ä\\n"}' },
    { id: "2", kind: "end", data: "one\ntwo" },
  ];

  it("gives the same events wherever the text is cut", () => {
    for (let cut = 0; cut <= text.length; cut++) {
      const parser = new EventParser();
      expect([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))]).toEqual(wanted);
    }
  });

  it("takes carriage returns, and events without a kind", () => {
    expect(new EventParser().push("id: 7\r\ndata: x\r\n\r\n")).toEqual([{ id: "7", kind: "message", data: "x" }]);
  });

  it("keeps an event back until it is whole", () => {
    const parser = new EventParser();
    expect(parser.push("id: 1\ndata: half")).toEqual([]);
    expect(parser.push(" done\n")).toEqual([]);
    expect(parser.push("\n")).toEqual([{ id: "1", kind: "message", data: "half done" }]);
  });
});

// A real server, whose connections break when a test wants them to.
let server: Server | null = null;
afterEach(() => new Promise<void>((resolve) => (server ? server.close(() => resolve()) : resolve())));

async function serving(answer: (after: number, response: ServerResponse, count: number) => void): Promise<string> {
  let count = 0;
  server = createServer((asked, response) => {
    if (asked.headers.accept === "text/event-stream") response.writeHead(200, { "Content-Type": "text/event-stream" });
    answer(Number(asked.headers["last-event-id"] ?? 0), response, ++count);
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

interface Followed {
  numbers: number[];
  connected: boolean[];
}

async function followed(address: string, signal = new AbortController().signal): Promise<Followed> {
  const found: Followed = { numbers: [], connected: [] };
  await follow({
    address: () => address,
    onEvent: ({ id }) => found.numbers.push(Number(id)),
    onConnected: (now) => found.connected.push(now),
    isLast: ({ kind }) => kind === "end",
    signal,
    pause: () => 1,
  });
  return found;
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe("following", () => {
  it("comes back after each break, and gets every event once and in order", async () => {
    const address = await serving((after, response) => {
      const next = after + 1;
      // Two at a time, the first of them once more, and half of a third; then the line is cut.
      if (after > 0) response.write(event(after, "stdout", "again"));
      for (const number of [next, next + 1]) response.write(event(number, number >= 20 ? "end" : "stdout", "x"));
      if (next >= 19) response.end();
      else response.write(`id: ${next + 2}\nda`, () => response.destroy());
    });
    const { numbers, connected } = await followed(address);
    expect(numbers).toEqual(upTo(20));
    expect(connected.filter((now) => !now).length).toBe(9);
  });

  it("ends when the stream has ended in order and has nothing more, though it never said `end`", async () => {
    const address = await serving((after, response) => response.end(after === 0 ? event(1, "stdout", "x") : ""));
    expect((await followed(address)).numbers).toEqual([1]);
  });

  it("waits for a server that is away for a while", async () => {
    const address = await serving((_, response, count) => {
      if (count < 4) response.destroy();
      else response.end(event(1, "end", "x"));
    });
    expect((await followed(address)).numbers).toEqual([1]);
  });

  it("gives up what the server refuses", async () => {
    server = createServer((_, response) => response.writeHead(410).end(JSON.stringify({ error: { kind: "gone", message: "Gone.", hint: "" } })));
    await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
    await expect(followed(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)).rejects.toMatchObject({ status: 410, message: "Gone." });
  });

  it("stops when it is told to", async () => {
    const controller = new AbortController();
    const address = await serving((_, response) => {
      response.write(event(1, "stdout", "x"), () => setTimeout(() => controller.abort(), 5));
    });
    expect((await followed(address, controller.signal)).numbers).toEqual([1]);
    server?.closeAllConnections();
  });

  it("lets the page breathe in a flood of 100,000 lines", async () => {
    const address = await serving((_, response) => {
      const piece = JSON.stringify({ text: `line ${"x".repeat(40)}\n`.repeat(50) });
      for (let number = 1; number <= 2000; number++) response.write(event(number, "stdout", piece));
      response.end(event(2001, "end", "{}"));
    });
    // A clock of the test's own: each event takes 5 ms, so whatever else there is to do comes after every third one.
    let clock = 0;
    vi.spyOn(performance, "now").mockImplementation(() => clock);
    let inARow = 0;
    let most = 0;
    let other = setImmediate(function turn() {
      inARow = 0;
      other = setImmediate(turn);
    });
    let count = 0;
    for await (const one of eventsOf(await request(address, { headers: { Accept: "text/event-stream" } }))) {
      clock += 5;
      most = Math.max(most, ++inARow);
      count += JSON.parse(one.data).text?.length > 0 ? 50 : 0;
    }
    clearImmediate(other);
    vi.restoreAllMocks();
    expect(count).toBe(100_000);
    expect(most).toBeLessThanOrEqual(6);
  });
});
