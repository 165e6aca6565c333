import { rmSync } from "node:fs";
import { expect, test } from "./bench";
import { endServer, newFolder, startServer } from "./serve";

test("after a restart of the server, people are signed in and a lost run is reported", async ({ browser }) => {
  test.setTimeout(90_000);
  const folder = newFolder();
  let { server, address, key } = await startServer(folder);
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const api = { headers: { Authorization: `Bearer ${key}` } };
    const made = await context.request.post(`${address}/v1/sandboxes`, { ...api, data: { persistent: true, metadata: { name: "Test" } } });
    const { id } = (await made.json()) as { id: string };
    await context.request.put(`${address}/v1/sandboxes/${id}/files/code/main.py`, { ...api, data: "import time\ntime.sleep(600)\n" });
    await page.goto(`${address}/?key=${key}`);
    await page.goto(`${address}/#/s/${id}`);
    await page.getByRole("treeitem", { name: "main.py" }).click();
    await page.locator(".monaco-editor .view-lines").first().click();
    await page.keyboard.press("Control+Enter");
    await expect(page.locator("section[data-phase=running]")).toBeVisible();

    await endServer(server, "SIGKILL");
    await expect(page.getByText("The server cannot be reached").first()).toBeVisible();
    ({ server } = await startServer(folder, Number(new URL(address).port)));
    await expect(page.getByRole("heading", { name: "This sandbox has ended" }).or(page.getByText("This sandbox has ended"))).toBeVisible({ timeout: 30_000 });
    await expect(page.getByText("The run main.py was lost.")).toBeVisible();
    await expect(page.getByText("Reason: the server stopped")).toBeVisible();
    await page.reload();
    await expect(page.getByText("The run main.py was lost.")).toBeVisible();
    for (const [theme, width] of [["light", 1440], ["dark", 390]] as const) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height: 844 });
      await page.screenshot({ path: `results/screens/${theme}-${width}-lost.png` });
    }
  } finally {
    await context.close();
    await endServer(server, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});
