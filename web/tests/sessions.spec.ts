import { serious } from "./axe";
import { expect, test } from "./bench";

test("what the sandbox uses is drawn as it happens, with its limits and what it costs", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "held = bytearray(60 << 20)\nfor _ in range(10 ** 9): pass\n" }, { memory: "256M" });
  await page.getByRole("button", { name: "Watch", exact: true }).click();
  const memory = page.locator('[data-figure="Memory"]');
  await expect(memory).toHaveText(/\d+(\.\d)? MB/);
  await person.code.click();
  await page.keyboard.press("Control+Enter");
  await expect.poll(async () => Number.parseFloat((await memory.textContent()) ?? "0")).toBeGreaterThan(55);
  await expect.poll(async () => Number.parseFloat((await page.locator('[data-figure="CPU"]').textContent()) ?? "0")).toBeGreaterThan(10);
  await expect(page.getByRole("group", { name: /Memory: .* of 256 MB/ })).toBeVisible();
  await expect(page.locator('[data-figure="cost"]')).toHaveText("Free");
  await person.shot("watch");
  expect(await serious(page)).toEqual([]);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
});

test("sandboxes of others are listed, named, opened, extended and ended", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "" });
  const made = await person.api.post("/v1/sandboxes", { data: { metadata: { name: "By an agent" }, ttl: 600 } });
  const { id } = (await made.json()) as { id: string };
  await person.api.post(`/v1/sandboxes/${id}/run`, { data: { code: "echo 1", language: "bash" } });
  await page.getByRole("button", { name: "Sessions", exact: true }).click();
  const list = page.getByRole("list", { name: "Live sandboxes" });
  const row = list.getByRole("listitem").filter({ has: page.locator(`a[href="#/s/${id}"]`) });
  await expect(row).toContainText("By an agent");
  await expect(row).toContainText("10 min left");
  await expect(row).toContainText(/Bash · .*[kM]B/);
  await expect(list.locator("a[aria-current]")).toContainText("Test");

  await row.getByRole("button", { name: "More actions for By an agent" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("Renamed here");
  await page.keyboard.press("Enter");
  await expect(row).toContainText("Renamed here");
  await row.getByRole("button", { name: "More actions for Renamed here" }).click();
  await page.getByRole("menuitem", { name: "4 hours" }).click();
  await expect(row).toContainText("4 h left");
  await person.shot("sessions");
  expect(await serious(page)).toEqual([]);

  const other = page.waitForEvent("popup");
  await row.getByRole("button", { name: "More actions for Renamed here" }).click();
  await page.getByRole("menuitem", { name: "Open in another tab" }).click();
  const tab = await other;
  await expect(tab.getByRole("button", { name: /Renamed here/ }).first()).toBeVisible();

  await row.getByRole("button", { name: "More actions for Renamed here" }).click();
  await page.getByRole("menuitem", { name: "End sandbox" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End sandbox" }).click();
  await expect(row).toHaveCount(0);
  await expect(tab.getByText("This sandbox has ended")).toBeVisible();
  await tab.close();
});
