/** What a run displays reaches no host, by any channel; the same HTML without our policy reaches its listener. */

import { createSocket } from "node:dgram";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, BrowserType, Page } from "@playwright/test";
import config from "../playwright.config";
import { address, expect, test } from "./bench";
import { channels, type Place } from "./channels";

const names = Object.keys(channels);

/** A listener for each channel, for connections and for datagrams, which counts what comes. */
class Listeners {
  readonly counts: number[] = names.map(() => 0);
  private readonly places: Place[] = [];
  private readonly closers: (() => void)[] = [];

  async open(): Promise<void> {
    for (const index of names.keys()) {
      const count = () => (this.counts[index] = (this.counts[index] ?? 0) + 1);
      const tcp = createTcp((socket) => {
        count();
        socket.on("error", () => socket.destroy());
        socket.once("data", () => socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"));
      });
      await new Promise<void>((resolve) => tcp.listen(0, "localhost", resolve));
      const udp = createSocket("udp4").on("message", count);
      await new Promise<void>((resolve) => udp.bind(0, "127.0.0.1", resolve));
      this.places.push({ url: `http://${host(index)}:${(tcp.address() as AddressInfo).port}/`, udp: `127.0.0.1:${udp.address().port}` });
      this.closers.push(() => tcp.close(), () => udp.close());
    }
  }

  html(index: number): string {
    const channel = channels[names[index] ?? ""];
    const place = this.places[index];
    return channel && place ? channel.html(place) : "";
  }

  close(): void {
    for (const closer of this.closers) closer();
  }
}

const host = (index: number): string => `channel${index}.localhost`;

/** Runs a browser that logs what its network stack does; returns the names of hosts that it looked up. */
async function browse(type: BrowserType, use: (browser: Browser) => Promise<void>): Promise<Set<string>> {
  const folder = mkdtempSync(join(tmpdir(), "cloche-channels-"));
  const log = join(folder, "net.json");
  const options = config.use?.launchOptions;
  const browser = await type.launch({ ...options, args: [...(options?.args ?? []), `--log-net-log=${log}`] });
  try {
    await use(browser);
  } finally {
    await browser.close();
  }
  const looked = new Set(readFileSync(log, "utf8").match(/channel\d+\.localhost/g) ?? []);
  rmSync(folder, { recursive: true });
  return looked;
}

/** Clicks what has to be clicked; a page that is leaving or has ended counts as clicked. */
async function click(page: Page, index: number, inside: string): Promise<void> {
  if (!channels[names[index] ?? ""]?.clicks) return;
  const target = inside ? page.frameLocator(inside).locator("#go") : page.locator("#go");
  await target.click({ timeout: 3000 }).catch(() => undefined);
}

/** The channels in groups, so that neither one page nor one moment has all of them; one that ends its page is alone. */
function groups(size: number): number[][] {
  const isLast = (index: number) => channels[names[index] ?? ""]?.ends;
  const others = [...names.keys()].filter((index) => !isLast(index));
  const count = Math.ceil(others.length / size);
  return [
    ...Array.from({ length: count }, (_, number) => others.slice(number * size, (number + 1) * size)),
    ...[...names.keys()].filter(isLast).map((index) => [index]),
  ];
}

/** Opens each channel's HTML as a document of its own, without any policy. */
async function withoutPolicy(browser: Browser, listeners: Listeners): Promise<void> {
  const server = createServer((request, response) => {
    response.writeHead(200, { "Content-Type": "text/html" });
    response.end(`<!doctype html>${listeners.html(Number(request.url?.slice(1)))}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "localhost", resolve));
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  for (const group of groups(12)) {
    const context = await browser.newContext();
    for (const index of group) {
      const page = await context.newPage();
      await page.goto(`${origin}/${index}`, { waitUntil: "commit" }).catch(() => undefined);
      await click(page, index, "");
    }
    const wanted = group.filter((index) => !channels[names[index] ?? ""]?.closed);
    const missing = () => wanted.filter((index) => !listeners.counts[index]);
    await expect.poll(missing, { timeout: 5000 }).toEqual([]).catch(() => undefined); // told at the end, for all groups
    await context.close();
  }
  server.close();
  server.closeAllConnections();
}

/** Shows each channel's HTML as the page shows what a run displays; returns the channels that ended their page. */
async function inFrames(browser: Browser, listeners: Listeners, frame: string): Promise<string[]> {
  const context = await browser.newContext();
  const ended: string[] = [];
  for (const group of groups(8)) {
    const page = await context.newPage();
    page.on("crash", () => ended.push(...group.map((index) => names[index] ?? "")));
    await page.goto(`${address()}/shared/none`, { waitUntil: "domcontentloaded" });
    await page.evaluate(
      ([frame, htmls]) => {
        const place = document.createElement("div");
        document.documentElement.append(place);
        for (const [index, html] of htmls.entries()) {
          const box = document.createElement("div");
          box.innerHTML = frame;
          const element = box.querySelector("iframe") as HTMLIFrameElement;
          element.id = `frame${index}`;
          addEventListener("message", ({ source, data }) => {
            if (source === element.contentWindow && data.ready) element.contentWindow?.postMessage({ html: `<!doctype html>${html}` }, "*");
          });
          place.append(element);
        }
      },
      [frame, group.map((index) => listeners.html(index))] as const,
    );
    for (const [position, index] of group.entries()) await click(page, index, `#frame${position}`);
  }
  // No event tells that nothing comes: the slowest channel without a policy takes a third of a second.
  await new Promise((resolve) => setTimeout(resolve, 2000));
  await context.close();
  return ended;
}

const channelTest = test.extend<{ listeners: Listeners }>({
  listeners: async ({}, use) => {
    const listeners = new Listeners();
    await listeners.open();
    await use(listeners);
    listeners.close();
  },
});
channelTest.use({ screenshot: "off" }); // of a hundred pages

channelTest("every channel works in a document without a policy", async ({ listeners, playwright }) => {
  const looked = await browse(playwright.chromium, (browser) => withoutPolicy(browser, listeners));
  const silent = names.filter((_, index) => !listeners.counts[index] && !looked.has(host(index)));
  expect(silent).toEqual(names.filter((name) => channels[name]?.closed));
});

channelTest("no channel leads out of the frame that shows what a run displays", async ({ listeners, person, playwright }) => {
  await person.begin();
  await person.write("from IPython.display import HTML\nHTML('<b>bold</b>')\n");
  await person.run();
  const frame = await person.last.locator("iframe").first().evaluate((element) => element.outerHTML);
  let ended: string[] = [];
  const looked = await browse(playwright.chromium, async (browser) => {
    ended = await inFrames(browser, listeners, frame);
  });
  expect(names.filter((_, index) => listeners.counts[index] || looked.has(host(index)))).toEqual([]);
  expect(ended.filter((name) => !channels[name]?.ends), "the page goes on").toEqual([]);
});

test("in a browser without such a policy, scripts of a run wait for leave", async ({ person, browser }) => {
  const html = "<b id=h>still</b><script>document.getElementById('h').textContent = 'moved'</script>";
  const pieces = [{ type: "display", mime: { "text/html": html } }];
  const runs = [{ title: "Run", language: "python", time: 0, pieces }];
  const made = await person.api.post("/v1/shares", { data: { title: "HTML", runs } });
  const { id, path } = (await made.json()) as { id: string; path: string };
  const context = await browser.newContext({ userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0" });
  const page = await context.newPage();
  await page.goto(`${address()}${path}`);
  const shown = page.frameLocator("iframe").locator("#h");
  await expect(shown).toHaveText("still");
  await page.getByRole("button", { name: "Run them anyway" }).click();
  await expect(shown).toHaveText("moved");
  await context.close();
  await person.api.delete(`/v1/shares/${id}`);
});
