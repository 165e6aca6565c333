import { rmSync } from "node:fs";
import type { ChildProcess } from "node:child_process";
import type { APIRequestContext, Page, Route } from "@playwright/test";
import { expect, test } from "./bench";
import { endServer, newFolder, startServer } from "./serve";

/** It goes on until this time is over; SECONDS=600 SEED=7 tries more. */
const SECONDS = Number(process.env.SECONDS ?? 8);
const SEED = Number(process.env.SEED ?? 1);
const LOADED = { timeout: 15_000 };

/** Numbers between 0 and 1, the same for the same seed (mulberry32). */
function dice(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const words = (text: string): string[] => text.match(/\b[ab]\d+\b/g) ?? [];
const conflict = (page: Page) => page.getByText("Someone else changed this file");
const reopen = (page: Page) => page.getByRole("button", { name: "Reopen its files" });
const code = (page: Page) => page.locator(".monaco-editor .view-lines").first();
const sandboxOf = (page: Page): string => /#\/s\/([\w-]+)/.exec(page.url())?.[1] ?? "";
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The words in the editor, once it is still: saved, or with a conflict that the person has to settle. */
async function still(page: Page): Promise<string[]> {
  await expect(page.getByText("Saved", { exact: true }).or(conflict(page)).first()).toBeVisible();
  return words(await code(page).innerText());
}

/** A server of its own, which can be restarted, with a sandbox in which one file is open in two tabs. */
class Bench {
  /** What the editors have received: a key that is pressed when there is no editor types nothing. */
  readonly typed = new Set<string>();

  private constructor(
    private readonly folder: string,
    private server: ChildProcess,
    readonly address: string,
    private readonly api: APIRequestContext,
    readonly tabs: readonly [Page, Page],
  ) {}

  static async open(first: Page, second: Page, api: (address: string, key: string) => Promise<APIRequestContext>): Promise<Bench> {
    const folder = newFolder();
    const { server, address, key } = await startServer(folder);
    const bench = new Bench(folder, server, address, await api(address, key), [first, second]);
    const made = await bench.api.post("/v1/sandboxes", { data: { persistent: true, metadata: { name: "Test" } } });
    const { id, workspace } = (await made.json()) as { id: string; workspace: string };
    await bench.api.put(`/v1/sandboxes/${id}/files/code/main.py`, { data: "" });
    await first.context().exposeFunction("noteTyped", (text: string) => words(text).forEach((word) => bench.typed.add(word)));
    for (const page of bench.tabs) {
      await page.addInitScript((name) => {
        const open = "/sandbox/code/main.py";
        if (!localStorage.getItem(name)) localStorage.setItem(name, JSON.stringify({ open: [open], active: open }));
        document.addEventListener("input", ({ target, data }: Event & { data?: string }) => {
          const isEditor = target instanceof Element && target.closest(".monaco-editor");
          if (isEditor && data) (window as unknown as { noteTyped: (text: string) => void }).noteTyped(data);
        }, { capture: true });
      }, `cloche.tabs.${workspace}`);
      await page.goto(`${address}/?key=${key}`);
      await page.goto(`${address}/#/s/${id}`);
      await code(page).waitFor(LOADED);
    }
    return bench;
  }

  /** The words in the file, as the sandbox has it that both tabs show. */
  async file(): Promise<string[]> {
    const [id, other] = this.tabs.map(sandboxOf);
    expect(id, "both tabs are in one sandbox").toBe(other);
    const answer = await this.api.get(`/v1/sandboxes/${id}/files/code/main.py`);
    expect(answer.status()).toBe(200); // otherwise the tabs have not heard yet that the sandbox has ended
    return words(await answer.text());
  }

  /** Ends the server, in good order or not, and starts it again. */
  async restart(signal: NodeJS.Signals, downMs: number): Promise<void> {
    await endServer(this.server, signal);
    await pause(downMs);
    ({ server: this.server } = await startServer(this.folder, Number(new URL(this.address).port)));
  }

  /** Ends the sandbox: it is killed, or its time is over. */
  async end(isKilled: boolean): Promise<void> {
    const address = `/v1/sandboxes/${sandboxOf(this.tabs[0])}`;
    await (isKilled ? this.api.delete(address) : this.api.patch(address, { data: { ttl: 1 } }));
    const state = async () => ((await (await this.api.get(address)).json()) as { state: string }).state;
    await expect.poll(state, { intervals: [50] }).not.toBe("alive");
  }

  /** Does what the page offers until both tabs show the file again. */
  async recover(first: number): Promise<void> {
    await expect(async () => {
      for (const page of [this.tabs[first], this.tabs[1 - first]]) {
        if (!page) continue;
        const isLate = await page.getByText("The page is still loading").isVisible();
        if (isLate || page.url().startsWith("chrome-error")) await page.reload({ timeout: 2000 });
        if (await reopen(page).isVisible()) await reopen(page).click({ timeout: 2000 });
        const again = page.getByRole("button", { name: /^(Try again|Load the page again)$/ });
        if (await again.first().isVisible()) await again.first().click({ timeout: 2000 });
      }
      for (const page of this.tabs) await expect(code(page)).toBeVisible({ timeout: 2000 });
      await this.file();
    }).toPass({ timeout: 45_000 });
  }

  async close(): Promise<void> {
    await this.api.dispose();
    await endServer(this.server, "SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

test("nothing typed is lost when two tabs edit one file, whatever the timing, and whatever ends in between", async ({ browser, playwright }) => {
  test.setTimeout((150 + SECONDS) * 1000);
  const random = dice(SEED);
  const below = (limit: number): number => Math.floor(random() * limit);
  const context = await browser.newContext();
  const [one, other] = [await context.newPage(), await context.newPage()];
  const bench = await Bench.open(one, other, (baseURL, key) =>
    playwright.request.newContext({ baseURL, extraHTTPHeaders: { Authorization: `Bearer ${key}` } }),
  );
  const { tabs, typed } = bench;

  /** Requests take a while, and some answers are lost on the way. */
  const slowly = async (route: Route): Promise<void> => {
    const [before, after, isLost] = [below(250), below(250), below(12) === 0];
    await pause(before);
    try {
      const answer = await route.fetch();
      await pause(after);
      await (isLost ? route.abort() : route.fulfill({ response: answer }));
    } catch {
      await route.abort().catch(() => undefined); // the server is away, or the page was reloaded meanwhile
    }
  };
  for (const page of tabs) await page.route(/\/files\/|\/stat\?/, slowly);

  /** Types a word, if there is an editor to type in. */
  const type = async (page: Page, word: string): Promise<void> => {
    try {
      await page.locator(".monaco-editor textarea").first().focus({ timeout: 500 });
      await page.keyboard.press("Control+End");
      await page.keyboard.insertText(`${word} `);
    } catch {
      // the sandbox has ended, or the page has not come back yet
    }
  };

  /** What goes wrong in a round, beside the answers that are lost: each kind early, then any. */
  const trouble = (round: number): (() => Promise<void>) | null => {
    const kind = round < 2 ? round : below(4);
    if (kind === 0) return () => bench.end(below(2) === 0);
    if (kind === 1) return () => bench.restart(below(2) === 0 ? "SIGTERM" : "SIGKILL", below(1500));
    return null;
  };

  try {
    let count = 0;
    let conflicts = 0;
    let troubles = 0;
    const end = Date.now() + SECONDS * 1000;
    for (let round = 0; Date.now() < end; round++) {
      const about = `seed ${SEED}, round ${round}`;
      typed.clear();
      (await bench.file()).forEach((word) => typed.add(word));
      const happens = trouble(round);
      const strikes = happens ? pause(below(1800)).then(happens) : Promise.resolve();
      if (happens) troubles++;
      for (let step = 0; step < 3 + below(4); step++) {
        const index = below(2);
        const page = tabs[index] ?? other;
        await type(page, `${"ab"[index]}${++count}`);
        if (below(6) === 0) {
          await page.reload().catch(() => undefined); // while the server is away, the browser says so
          await code(page).or(reopen(page)).first().waitFor({ timeout: happens ? 2000 : 15_000 }).catch((problem: unknown) => {
            if (!happens) throw problem;
          });
        } else await page.waitForTimeout(below(900));
      }
      await strikes;
      await bench.recover(below(2));
      // In the end each word is in the sandbox, or in a tab that shows a conflict.
      let seen: string[] = [];
      await expect(async () => {
        const texts = await Promise.all(tabs.map(still));
        const file = await bench.file();
        for (const [index, page] of tabs.entries()) {
          if (!(await conflict(page).isVisible())) expect(texts[index], `${about}: a tab without a conflict shows the file`).toEqual(file);
        }
        seen = [...file, ...texts.flat()];
      }).toPass({ timeout: 15_000 });
      expect([...typed].filter((word) => !seen.includes(word)), `${about}: these are lost`).toEqual([]);
      // The person settles each conflict; the other tab then has the same text, or a conflict of its own.
      await expect(async () => {
        for (const page of tabs) {
          if (!(await conflict(page).isVisible())) continue;
          conflicts++;
          await page.getByRole("button", { name: below(2) === 0 ? "Keep mine" : "Take theirs" }).click({ timeout: 5000 });
        }
        const [first, second] = await Promise.all(tabs.map(still));
        expect(first).toEqual(second);
        expect(await bench.file()).toEqual(first);
      }, about).toPass({ timeout: 20_000 });
    }
    console.log(`${count} words, ${conflicts} conflicts, ${troubles} ends of a server or sandbox`);
  } finally {
    await context.close();
    await bench.close();
  }
});
