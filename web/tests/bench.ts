/** What the tests have in common: a person at the page, signed in, with a fresh sandbox. */

import { test as base, expect, type APIRequestContext, type BrowserContext, type Locator, type Page } from "@playwright/test";

export { expect };

export const address = (): string => process.env.CLOCHE_PAGE ?? "";
export const key = (): string => process.env.CLOCHE_KEY ?? "";

/** A person at the page. */
export class Person {
  /** Everything that the page asked other hosts for, or that its policy refused. */
  readonly strangers: string[] = [];
  readonly complaints: string[] = [];
  sandbox = "";

  constructor(
    readonly page: Page,
    readonly api: APIRequestContext,
  ) {
    page.on("request", (request) => {
      const { protocol, host } = new URL(request.url());
      if (!["data:", "blob:"].includes(protocol) && host !== new URL(address()).host) this.strangers.push(request.url());
    });
    page.on("console", (message) => {
      if (/Content Security Policy|Refused to/.test(message.text())) this.strangers.push(message.text());
      else if (message.type() === "error" && !/Failed to load resource|WebSocket connection/.test(message.text())) this.complaints.push(message.text());
    });
    page.on("pageerror", (error) => this.complaints.push(error.message));
  }

  /** By the address that `cloche serve` prints. */
  async signIn(): Promise<void> {
    await this.page.goto(`${address()}/?key=${key()}`);
  }

  /** In a sandbox that has these files, the first of them open. */
  async begin(files: Record<string, string> = { "code/main.py": "" }, wish: object = {}): Promise<void> {
    const made = await this.api.post("/v1/sandboxes", { data: { undo: true, persistent: true, metadata: { name: "Test" }, ...wish } });
    expect(made.status()).toBe(201);
    const { id, workspace } = (await made.json()) as { id: string; workspace: string };
    this.sandbox = id;
    for (const [path, contents] of Object.entries(files)) await this.api.put(`/v1/sandboxes/${id}/files/${path}`, { data: contents });
    const open = Object.keys(files)
      .slice(0, 1)
      .map((path) => `/sandbox/${path}`);
    await this.page.addInitScript(
      ([name, tabs]) => name && window === top && !localStorage.getItem(name) && localStorage.setItem(name, tabs ?? ""),
      [`cloche.tabs.${workspace ?? id}`, JSON.stringify({ open, active: open[0] ?? null })] as const,
    );
    await this.page.goto(`${address()}/?key=${key()}`);
    await this.page.goto(`${address()}/#/s/${id}`);
    if (open.length > 0) await this.code.waitFor();
  }

  get code(): Locator {
    return this.page.locator(".monaco-editor .view-lines").first();
  }

  get runs(): Locator {
    return this.page.getByRole("region", { name: "Runs" });
  }

  /** The last run. */
  get last(): Locator {
    return this.page.locator("section[data-phase]").last();
  }

  async write(text: string): Promise<void> {
    await this.code.click();
    await this.page.keyboard.press("Control+a");
    await this.page.keyboard.press("Delete");
    await this.page.keyboard.insertText(text);
  }

  /** Run what is in the editor, and wait for its end. */
  async run(): Promise<void> {
    const before = await this.page.locator("section[data-phase]").count();
    await this.page.keyboard.press("Control+Enter");
    await expect(this.page.locator("section[data-phase]")).toHaveCount(before + 1);
    await expect(this.last).toHaveAttribute("data-phase", "done");
  }

  async saved(): Promise<void> {
    await expect(this.page.getByText("Saved", { exact: true })).toBeVisible();
  }

  async file(path: string): Promise<string> {
    const answer = await this.api.get(`/v1/sandboxes/${this.sandbox}/files/${path}`);
    return answer.ok() ? answer.text() : `(${answer.status()})`;
  }

  async shot(name: string): Promise<void> {
    await this.page.screenshot({ path: `results/screens/${name}.png` });
  }
}

export const test = base.extend<{ person: Person }, { browsed: BrowserContext }>({
  // One browser's cache for all tests of a worker: to compile the editor anew for each of them takes longer than the test.
  browsed: [
    async ({ browser }, use) => {
      const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
      await use(context);
      await context.close();
    },
    { scope: "worker" },
  ],
  // What a person has stored does not outlive a test.
  page: async ({ browsed }, use) => {
    const page = await browsed.newPage();
    await page.setViewportSize({ width: 1440, height: 900 });
    const session = await browsed.newCDPSession(page);
    await session.send("Storage.clearDataForOrigin", { origin: address(), storageTypes: "cookies,local_storage,indexeddb" });
    await session.detach();
    await use(page);
    await browsed.setOffline(false);
    await page.close();
  },
  person: async ({ page, playwright }, use) => {
    const api = await playwright.request.newContext({ baseURL: address(), extraHTTPHeaders: { Authorization: `Bearer ${key()}` } });
    const person = new Person(page, api);
    await use(person);
    if (person.sandbox) await api.delete(`/v1/sandboxes/${person.sandbox}`);
    await api.dispose();
    expect(person.strangers, "only our own server is talked to").toEqual([]);
    expect(person.complaints, "the page has nothing to complain of").toEqual([]);
  },
});
