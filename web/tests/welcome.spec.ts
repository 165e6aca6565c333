import { serious } from "./axe";
import { expect, test, type Person } from "./bench";

async function opened(person: Person): Promise<void> {
  await expect(person.page).toHaveURL(/#\/s\//);
  person.sandbox = /#\/s\/([\w-]+)/.exec(person.page.url())?.[1] ?? "";
}

test("one click draws a chart", async ({ person }) => {
  await person.signIn();
  await person.page.getByRole("button", { name: /A chart from data/ }).click();
  await opened(person);
  await expect(person.last.getByRole("img").first()).toBeVisible({ timeout: 30_000 });
  await expect(person.last.getByRole("grid")).toBeVisible();
  await person.shot("example-chart");
});

test("one click runs TypeScript, another Bash", async ({ person }) => {
  const { page } = person;
  await person.signIn();
  await page.getByRole("button", { name: /A TypeScript program/ }).click();
  await opened(person);
  await expect(person.last).toContainText("1840 points", { timeout: 30_000 });
  await person.api.delete(`/v1/sandboxes/${person.sandbox}`);
  await page.goto(`${process.env.CLOCHE_PAGE}/#`);
  await page.getByRole("button", { name: /A Bash script/ }).click();
  await expect(person.last).toContainText("█", { timeout: 30_000 });
  await opened(person);
});

test("one click loses a table and its file, and another has both back", async ({ person }) => {
  const { page } = person;
  await person.signIn();
  await page.getByRole("button", { name: /^Undo/ }).click();
  await opened(person);
  await expect(page.getByText("Now undo it")).toBeVisible({ timeout: 30_000 });
  await expect(person.last).toContainText("the file is gone");
  expect(await person.file("orders.csv")).toBe("(404)");
  await page.getByRole("button", { name: "Undo", exact: true }).click();
  await expect(page.getByText("Last run undone")).toBeVisible();
  expect(await person.file("orders.csv")).toContain("orchid,39.0");
  await expect(person.code).toContainText("Ruin it");
  await person.shot("example-undo");
});

for (const [theme, width, height] of [["light", 1440, 900], ["dark", 390, 844]] as const) {
  test(`templates and recent sandboxes: ${theme}, ${width} px`, async ({ person }) => {
    const { page } = person;
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height });
    const made = await person.api.post("/v1/sandboxes", { data: { metadata: { name: `Recent ${theme}` } } });
    const { id } = (await made.json()) as { id: string };
    await person.signIn();
    await expect(page.getByRole("link", { name: `Recent ${theme}` })).toBeVisible();
    await expect(page.getByRole("button", { name: /Python\s+python-cli/ })).toBeVisible();
    expect(await serious(page)).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await person.shot(`welcome-${theme}`);
    await person.api.delete(`/v1/sandboxes/${id}`);
    await page.getByRole("button", { name: /Python\s+python-cli/ }).click();
    await opened(person);
    await expect(page.getByRole("tab", { name: "main.py" })).toHaveAttribute("aria-selected", "true");
    expect(await person.file("words/cli.py")).toContain("def ");
  });
}
