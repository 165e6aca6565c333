import { serious } from "./axe";
import { address, expect, test } from "./bench";

test("a snapshot is shared by a link that shows it to anybody, until it is revoked", async ({ person, browser }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "" });
  await person.write(
    "from IPython.display import HTML, display\nprint('\\x1b[32mgreen\\x1b[0m')\n" +
      "display(HTML('<b id=h>x</b><script>document.getElementById(\"h\").textContent = origin</script>'))\n1 / 0\n",
  );
  await person.run();
  await page.getByRole("button", { name: "Share a snapshot" }).click();
  await expect(page.getByLabel("Title")).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Share a snapshot" })).toBeFocused();
  await person.code.click();
  await page.keyboard.press("F1");
  await expect(page.getByRole("combobox", { name: "Find a command or a file" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("textbox", { name: "Code editor" })).toBeFocused();
  await page.getByRole("button", { name: "Share a snapshot" }).click();
  await page.getByLabel("Title").fill("For a friend");
  await page.getByRole("button", { name: "Create link" }).click();
  const link = await page.getByLabel("Link", { exact: true }).inputValue();
  expect(link).toContain(`${address()}/shared/`);
  expect(await serious(page)).toEqual([]);
  await person.shot("share");

  // Somebody without a key, who tries what a page could try.
  const stranger = await browser.newContext();
  const theirs = await stranger.newPage();
  const asked: string[] = [];
  theirs.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await theirs.goto(link);
  await expect(theirs.getByRole("heading", { name: "For a friend" })).toBeVisible();
  await expect(theirs.getByRole("region", { name: "code/main.py" })).toContainText("IPython.display");
  await expect(theirs.getByText("green", { exact: true })).toHaveCSS("color", "rgb(31, 122, 74)");
  await expect(theirs.getByRole("alert")).toContainText("ZeroDivisionError");
  await expect(theirs.frameLocator("iframe").locator("#h")).toHaveText("null");
  await expect(theirs.getByRole("button", { name: /run/i })).toHaveCount(0);
  expect(asked.filter((path) => path.startsWith("/v1"))).toEqual([]);
  expect(await theirs.evaluate(() => fetch("/v1/version").then(() => "reached", () => "refused"))).toBe("refused");
  expect(await serious(theirs)).toEqual([]);
  await theirs.screenshot({ path: "results/screens/shared.png" });

  await page.getByRole("button", { name: "Revoke", exact: true }).click();
  await expect(page.getByRole("button", { name: "Create link" })).toBeVisible();
  await theirs.reload();
  await expect(theirs.getByText("This link does not work")).toBeVisible();
  await stranger.close();
});
