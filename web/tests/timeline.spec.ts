import { serious } from "./axe";
import { expect, test } from "./bench";

const first = "# %% first\nrows = [1, 2, 3]\nopen('/sandbox/notes.txt', 'w').write('one\\ntwo\\n')\nprint(rows)\n";
const second = "# %% second\nimport os\nrows = []\nos.remove('/sandbox/notes.txt')\nprint('gone')\n";

test("a run is undone by key, with its variables and files; what was typed stays", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": first });
  await person.code.click();
  await person.run();
  await person.write(second);
  await person.run();
  await person.write("print(rows, open('/sandbox/notes.txt').read().split())\n");
  await page.keyboard.press("Control+Shift+X");
  await expect(page.getByText("Last run undone")).toBeVisible();
  const undone = page.locator("section[data-undone]");
  await expect(undone).toHaveCount(1);
  await expect(undone).toContainText("gone");
  await expect(undone.getByText("undone", { exact: true })).toBeVisible();
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await page.waitForTimeout(200); // colours change softly, and are measured
    expect(await serious(page)).toEqual([]);
    await person.shot(`${theme}-undone`);
  }
  // A snapshot shows it, too, and so does the page after a reload.
  const shared = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/v1/shares"));
  await page.getByRole("button", { name: "Share a snapshot" }).click();
  await page.getByRole("button", { name: "Create link" }).click();
  const { runs } = (await shared).postDataJSON() as { runs: { undone: boolean }[] };
  expect(runs.map((one) => one.undone)).toEqual([false, true]);
  const link = await page.getByLabel("Link", { exact: true }).inputValue();
  const other = await page.context().newPage();
  await other.goto(link);
  await expect(other.getByText("undone", { exact: true })).toBeVisible();
  expect(await serious(other)).toEqual([]);
  await other.setViewportSize({ width: 390, height: 844 });
  await other.screenshot({ path: "results/screens/undone-shared-phone.png" });
  await other.close();
  await page.reload();
  await expect(undone).toHaveCount(1);
  await expect(person.code).toContainText("split");
  await person.code.click();
  await person.run();
  await expect(person.last).toContainText("[1, 2, 3] ['one', 'two']");
  await page.getByRole("button", { name: "Timeline", exact: true }).click();
  const moments = page.getByRole("list", { name: /Points in time/ });
  await expect(moments.getByRole("button", { name: /Run: second/ }).locator(".line-through")).toBeVisible();
});

test("named moments: kept, compared, gone back to, branched from", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": first });
  await person.code.click();
  await person.run();
  await page.getByRole("button", { name: "Timeline", exact: true }).click();
  await page.getByRole("button", { name: "Save a checkpoint" }).click();
  await page.getByRole("textbox", { name: "Name" }).fill("good data");
  await page.keyboard.press("Enter");
  const moments = page.getByRole("list", { name: /Points in time/ });
  await expect(moments.getByRole("button", { name: /Checkpoint: good data/ })).toBeVisible();
  await person.write("rows.append(4)\nopen('/sandbox/notes.txt', 'w').write('one\\n2\\n')\n");
  await person.run();

  await moments.getByRole("button", { name: /Checkpoint: good data/ }).click();
  await page.getByRole("button", { name: "Compare" }).click();
  await page.getByRole("menuitem", { name: "With the current state" }).click();
  const dialog = page.getByRole("dialog", { name: "Differences" });
  await expect(dialog.getByRole("row", { name: /rows list of 3 list of 4/ })).toBeVisible();
  await dialog.getByRole("button", { name: /notes.txt/ }).click();
  await expect(dialog.getByTestId("difference").locator(".view-lines").last()).toContainText("2");
  await person.shot("compare");
  expect(await serious(page)).toEqual([]);
  await page.keyboard.press("Escape");

  // In a branch, the main line stays as it is.
  await page.getByRole("button", { name: "Branch", exact: true }).click();
  await expect(page.getByText("Runs go to the branch")).toBeVisible();
  await person.write("print('branch', rows)\n");
  await person.run();
  await expect(person.last).toContainText("branch [1, 2, 3]");
  await page.getByRole("button", { name: "Return to the main line" }).click();
  await person.write("print('main', rows)\n");
  await person.run();
  await expect(person.last).toContainText("main [1, 2, 3, 4]");

  await page.getByRole("button", { name: "Restore", exact: true }).click();
  await expect(page.getByText("Restored “good data”")).toBeVisible();
  expect(await person.file("notes.txt")).toBe("one\ntwo\n");
  // The file in the editor went back as well, and nothing typed is lost.
  await expect(person.code).toContainText("first");
  await page.getByRole("button", { name: "Restore my text" }).click();
  await expect(person.code).toContainText("'main', rows");
  await person.shot("timeline");
  expect(await serious(page)).toEqual([]);
});
