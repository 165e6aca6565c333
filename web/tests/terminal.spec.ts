import { serious } from "./axe";
import { expect, test } from "./bench";

test("a phone has the keys that its keyboard lacks, for the terminal and the editor", async ({ person }) => {
  const { page } = person;
  await page.setViewportSize({ width: 390, height: 844 });
  await person.begin({ "code/main.py": "first\n", "code/long-name.txt": "found\n" });
  const key = (name: string) => page.getByRole("toolbar", { name: "Keys" }).getByRole("button", { name, exact: true });
  await person.code.click();
  await page.keyboard.press("Control+Home");
  await key("Tab").click();
  await page.keyboard.insertText("x");
  await expect(person.code).toContainText(/^\s+xfirst/);
  await key("Down").click();
  await expect(page.getByText("Ln 2, Col 1")).toBeVisible();

  await page.getByRole("button", { name: "Terminal" }).click();
  const screen = page.locator(".xterm-rows");
  await expect(screen).toContainText("~ $");
  await page.keyboard.type("cat code/lo");
  await key("Tab").click(); // completes the name
  await expect(screen).toContainText("cat code/long-name.txt");
  await page.keyboard.press("Enter");
  await expect(screen).toContainText("found");
  await page.keyboard.type("sleep 600");
  await page.keyboard.press("Enter");
  await key("Ctrl").click();
  await expect(key("Ctrl")).toHaveAttribute("aria-pressed", "true");
  await page.keyboard.type("c"); // Ctrl+C
  await expect(screen).toContainText("^C");
  await expect(key("Ctrl")).toHaveAttribute("aria-pressed", "false");
  await key("Up").click(); // the command before
  await expect(screen).toContainText(/sleep 600.*sleep 600/);
  expect(await serious(page)).toEqual([]);
});

test("terminals: by key and button, several, split, and the same shell after a reload", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "" });
  const panel = page.getByRole("region", { name: "Terminal" });
  const screen = panel.locator(".xterm-rows").first();
  await page.keyboard.press("Control+Backquote");
  await expect(screen).toContainText("~ $");
  await expect(panel.locator(".xterm")).toHaveCSS("font-variant-ligatures", "none");
  expect(await serious(page)).toEqual([]);
  await page.keyboard.type("secret=kept; echo $((6 * 7)) at http://localhost/x; tput cols\n");
  await expect(screen).toContainText("42 at http://localhost/x");
  await page.keyboard.type("touch /sandbox/code/by-shell.txt\n");
  await expect(page.getByRole("treeitem", { name: "by-shell.txt" })).toBeVisible();

  await page.keyboard.press("Control+Backquote");
  await expect(panel).toHaveCount(0);
  await expect(page.getByRole("textbox", { name: "Code editor" })).toBeFocused();
  await page.keyboard.press("Control+Backquote");
  await expect(screen).toContainText("42 at http://localhost/x");

  // A narrower one knows that it is narrower.
  await page.setViewportSize({ width: 1000, height: 800 });
  await page.keyboard.type("clear; echo width=$(tput cols)\n");
  await expect(screen).toContainText(/width=\d+/);
  const width = Number(/width=(\d+)/.exec((await screen.textContent()) ?? "")?.[1]);
  expect(width).toBeGreaterThan(60);
  expect(width).toBeLessThan(130);

  await panel.getByRole("button", { name: "New terminal" }).click();
  await expect(panel.getByRole("tab")).toHaveCount(2);
  await expect(panel.getByRole("tab", { name: "Shell 2" })).toHaveAttribute("aria-selected", "true");
  await panel.getByRole("button", { name: "Split" }).click();
  await expect(panel.getByRole("tabpanel")).toHaveCount(2);
  // A tab survives a reload once its shell has answered.
  for (const one of await panel.locator(".xterm-rows").all()) await expect(one).toContainText("$");
  await person.shot("terminal-split");

  // Hidden and reloaded, the shells are where they were, and what they showed is there.
  await page.keyboard.press("Control+Backquote");
  await expect(panel).toHaveCount(0);
  await page.reload();
  await person.code.waitFor();
  await page.keyboard.press("Control+Backquote");
  await expect(panel.getByRole("tab")).toHaveCount(2);
  await panel.getByRole("tab", { name: "Shell 1" }).click();
  await expect(screen).toContainText("width=");
  await panel.locator(".xterm-helper-textarea").first().focus();
  await page.keyboard.type("echo it is $secret\n");
  await expect(screen).toContainText("it is kept");

  await page.keyboard.type("exit 3\n");
  await expect(screen).toContainText("The shell exited with code 3");
  await panel.getByRole("tab", { name: "Shell 1" }).press("Delete");
  await panel.getByTitle("Close Shell 2").click();
  await expect(panel.getByText("No terminal")).toBeVisible();
});
