import type { Page } from "@playwright/test";
import { serious } from "./axe";
import { address, expect, key, test } from "./bench";

const BRIGHT = ["light", 1440, 900] as const;
const SMALL = ["dark", 390, 844] as const;

/** In a theme, at a width: nothing for axe, nothing wider than the page, and a screenshot to look at. */
async function looks(page: Page, name: string, ways: readonly (typeof BRIGHT | typeof SMALL)[] = [BRIGHT, SMALL]): Promise<void> {
  for (const [theme, width, height] of ways) {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height });
    // Colours change softly, so the first look may be at a mixture of both themes.
    await expect(async () => expect(await serious(page), `${name}, ${theme}`).toEqual([])).toPass({ timeout: 30_000 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name}, ${width} px`).toBe(true);
    await page.screenshot({ path: `results/screens/${name}-${theme}.png` });
  }
  await page.setViewportSize({ width: 1440, height: 900 });
}

test("somebody without a key finds out what to do, at every address", async ({ person }) => {
  test.slow(); // it looks at many pages
  const { page } = person;
  await page.goto(`${address()}/?key=cloche_zebra`);
  await expect(page.getByRole("alert")).toContainText("does not know this key");
  expect(page.url()).toBe(`${address()}/`);
  await expect(page.getByText("cloche key", { exact: true })).toBeVisible();
  await looks(page, "sign-in");
  expect((await page.goto(`${address()}/nowhere/zebra`))?.status()).toBe(401);
  await expect(page.getByRole("heading", { name: "A key is needed" })).toBeVisible();
  await expect(page.locator("body")).not.toContainText("zebra");
  await looks(page, "key-needed", [SMALL]);

  // The reference needs no key; a search and the keyboard lead to an operation, whose example can be copied.
  await page.getByRole("link", { name: "API reference" }).click();
  await page.waitForURL(/\/docs$/, { waitUntil: "load" }); // its script is at the end
  await page.keyboard.press("/");
  await expect(page.getByRole("searchbox")).toBeFocused();
  await page.keyboard.type("create sandbox");
  const operation = page.locator("#sandboxes_create");
  await expect(operation).toBeVisible();
  await expect(page.locator("#files_watch")).toBeHidden();
  await page.keyboard.press("Escape");
  await expect(page.locator("#files_watch")).toBeVisible();
  await page.goto(`${address()}/docs#sandboxes_create`);
  await expect(operation.getByText("seconds until the sandbox ends")).toBeVisible();
  await operation.getByRole("button", { name: "Copy" }).click();
  await expect(operation.getByRole("button", { name: "Copied" })).toBeVisible();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain("/v1/sandboxes");
  await page.getByRole("searchbox").fill("sandboxes_create"); // all of it would keep axe busy for long
  await looks(page, "reference");

  // A browser whose key was revoked while it was away is told so.
  const made = await person.api.post("/v1/keys", { data: { owner: "leaver", name: "Old laptop" } });
  const { id, key: secret } = (await made.json()) as { id: string; key: string };
  await page.goto(`${address()}/?key=${secret}`);
  await expect(page.getByRole("heading", { name: "Code under glass" })).toBeVisible();
  await person.api.delete(`/v1/keys/${id}`);
  await page.reload();
  await expect(page.getByRole("status").filter({ hasText: "not signed in any more" })).toBeVisible();
  await page.getByLabel("Key").fill(key());
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Code under glass" })).toBeVisible();
  expect((await page.goto(`${address()}/nowhere`))?.status()).toBe(404);
  await page.getByRole("link", { name: "Open the playground" }).click();
  await expect(page.getByRole("heading", { name: "Code under glass" })).toBeVisible();
  person.complaints.length = 0; // the browser reports each 401 and 404, and they were meant
});

test("a client gets a key of its own, which works, is listed, limited, used up and revoked", async ({ person, playwright }) => {
  test.slow();
  const { page } = person;
  await person.signIn();
  const panel = page.getByRole("region", { name: "Connect your AI" });
  await panel.getByRole("tab", { name: "Claude Desktop" }).focus();
  for (const next of ["Claude Code", "Cursor"]) {
    await page.keyboard.press("ArrowDown");
    await expect(panel.getByRole("tab", { name: next })).toBeFocused();
    await expect(panel.getByRole("tab", { name: next })).toHaveAttribute("aria-selected", "true");
  }
  await expect(panel).toContainText(`${address()}/mcp`);
  await expect(panel).toContainText("YOUR_KEY");
  await panel.getByRole("button", { name: "Create a key for Cursor" }).click();
  await expect(panel.getByText("Copy it now")).toBeVisible();
  await expect(panel).not.toContainText(/cloche_\w/); // it is hidden until somebody asks for it
  await panel.getByRole("button", { name: "Copy for Cursor", exact: true }).click();
  const config = JSON.parse(await page.evaluate(() => navigator.clipboard.readText())) as { mcpServers: { cloche: { url: string; headers: { Authorization: string } } } };
  const { url, headers } = config.mcpServers.cloche;
  await panel.getByRole("button", { name: "Show the key" }).click();
  await expect(panel).toContainText(headers.Authorization);
  await looks(page, "connect");
  const cursor = await playwright.request.newContext({ extraHTTPHeaders: { ...headers, Accept: "application/json, text/event-stream" } });
  const hello = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } } };
  expect((await cursor.post(url, { data: hello })).status()).toBe(200);
  await cursor.dispose();

  await page.getByRole("link", { name: "Keys and usage" }).click();
  const table = page.getByRole("region", { name: "All keys" });
  await expect(table.getByRole("row", { name: /^Cursor/ })).toContainText("run code");
  await page.getByRole("button", { name: "Create a key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("<b>Ada’s</b> laptop");
  await dialog.getByRole("textbox", { name: /^Owner/ }).fill("not an owner");
  await dialog.getByText("Limits (none unless you set one)").click();
  await dialog.getByLabel("CPU time per day, seconds").fill("60");
  await dialog.getByLabel("Data per day, MB").fill("10");
  await dialog.getByRole("button", { name: "Create key" }).click();
  await expect(dialog.getByRole("alert")).toContainText("cannot be the owner");
  await dialog.getByRole("textbox", { name: /^Owner/ }).fill("ada");
  await dialog.getByRole("button", { name: "Create key" }).click();
  const secret = await dialog.getByLabel("Key", { exact: true }).inputValue();
  expect(secret).toMatch(/^cloche_/);
  await dialog.getByRole("button", { name: "Copy the key" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(secret);
  await looks(page, "key-created", [SMALL]);
  await dialog.getByRole("button", { name: "Done" }).click();
  await expect(page.locator("body")).not.toContainText(secret);
  const ada = table.getByRole("row", { name: /^<b>Ada’s<\/b> laptop ada/ });
  await expect(ada).toContainText("CPU time per day: 1 min, data per day: 10 MB");
  await expect(ada).toContainText("never");

  // With the new key: a run that counts, and a page that shows no more than what is its own.
  const api = await playwright.request.newContext({ baseURL: address(), extraHTTPHeaders: { Authorization: `Bearer ${secret}` } });
  expect((await api.post("/v1/run", { data: { code: "print('x' * 1000)" } })).ok()).toBe(true);
  await api.dispose();
  await page.reload();
  await expect(ada).toContainText("just now");
  await expect(page.getByRole("table", { name: "Usage by key" }).getByRole("row", { name: /laptop \(ada\)/ })).toContainText("1");
  await looks(page, "keys");
  await page.context().clearCookies();
  await page.goto(`${address()}/?key=${secret}`);
  await page.goto(`${address()}/#/keys`);
  await expect(page.getByText("You see the usage of ada only.")).toBeVisible();
  await expect(page.getByRole("region", { name: "Your key" })).toContainText(/of 1 min left today/);
  await expect(page.getByRole("figure", { name: /Runs by day: 1 in all/ }).or(page.getByRole("group", { name: /Runs by day: 1 in all/ }))).toBeVisible();
  await expect(page.getByRole("region", { name: "All keys" })).toHaveCount(0);
  await looks(page, "keys-own", [BRIGHT]);
  await page.goto(`${address()}/#`);
  await expect(panel.getByText("Only an admin’s key can create new ones")).toBeVisible();

  await page.context().clearCookies();
  await person.signIn();
  await page.goto(`${address()}/#/keys`);
  for (const name of ["Cursor", "<b>Ada’s</b> laptop"]) {
    await table.getByRole("button", { name: `Revoke ${name}` }).first().click();
    await dialog.getByRole("button", { name: "Revoke key" }).click();
    await expect(dialog).toHaveCount(0);
  }
  await expect(ada).toHaveCount(0);
  await table.getByRole("button", { name: /Show \d+ revoked/ }).click();
  await expect(ada.first()).toContainText("revoked");
  const revoked = await playwright.request.newContext({ baseURL: address(), extraHTTPHeaders: { Authorization: `Bearer ${secret}` } });
  expect((await revoked.get("/v1/key")).status()).toBe(401);
  await revoked.dispose();
});

test("a sandbox takes its name from its first run, and keeps the one that somebody gave it", async ({ person }) => {
  const { page } = person;
  await person.signIn();
  await page.getByRole("button", { name: "New sandbox" }).click();
  await expect(page).toHaveURL(/#\/s\//);
  person.sandbox = /#\/s\/([\w-]+)/.exec(page.url())?.[1] ?? "";
  const name = async () => ((await (await person.api.get(`/v1/sandboxes/${person.sandbox}`)).json()) as { metadata: { name: string } }).metadata.name;
  expect(await name()).toBe("Untitled");
  await person.write("import sys\n# Weigh <b>ten</b> seeds\nprint(10)\n");
  await person.run();
  const shown = page.getByRole("banner").getByRole("button", { name: /Weigh <b>ten<\/b> seeds/ });
  await expect(shown).toBeVisible();
  expect(await name()).toBe("Weigh <b>ten</b> seeds");
  await expect(page).toHaveTitle(/Weigh <b>ten<\/b> seeds/);
  await shown.click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("Untitled");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await expect.poll(name).toBe("Untitled");
  await person.write("# Something else\nprint(11)\n");
  await person.run();
  expect(await name()).toBe("Untitled");
});
