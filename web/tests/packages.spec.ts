import { serious } from "./axe";
import { expect, test } from "./bench";

test("a package is installed by its name, imported in a cell, and removed again", async ({ person }) => {
  const { page } = person;
  const { warnings } = (await (await person.api.get("/v1/packages/search?q=humanize")).json()) as { warnings: string[] };
  test.skip(warnings.length > 0, "The package index does not answer.");
  await person.begin({ "code/main.py": "import humanize\nprint(humanize.__version__)\n" });
  await page.getByRole("button", { name: "Packages", exact: true }).click();
  const panel = page.getByRole("region", { name: "Packages" });
  const own = panel.getByRole("list", { name: "In this sandbox" });
  const field = panel.getByLabel("Search packages");
  await expect(panel.getByText("Nothing is installed yet.")).toBeVisible();
  await expect(panel.getByRole("list", { name: "In every sandbox" })).toContainText("numpy");

  // By keyboard alone: Enter installs what was typed with a version.
  await field.focus();
  await page.keyboard.type("humanize==4.9.0");
  await page.keyboard.press("Enter");
  await expect(panel.getByText("humanize 4.9.0 is installed.")).toBeVisible();
  await expect(own.getByRole("listitem")).toHaveText(["humanize4.9.0"]);
  await expect(panel.getByRole("list", { name: "Found" })).toContainText("Installed");
  await expect(panel.getByRole("list", { name: "In every sandbox" })).toHaveCount(0); // the field filters it, too
  expect(await serious(page)).toEqual([]);
  await person.code.click();
  await person.run();
  await expect(person.last).toContainText("4.9.0");

  // A refusal stays beside the package, with its reason; npm's packages are apart.
  await field.fill("nosuchpackage-anywhere==1");
  await panel.getByRole("button", { name: "Install nosuchpackage-anywhere==1" }).click();
  await expect(panel.getByRole("alert")).toContainText("Check the names and versions of the packages.");
  expect(await serious(page)).toEqual([]);
  await field.fill("");
  await expect(panel.getByRole("alert")).toHaveCount(0);
  await panel.getByRole("button", { name: "JavaScript" }).click();
  await expect(own).toHaveCount(0);
  await expect(panel.getByRole("list", { name: "In every sandbox" })).toContainText("lodash");
  await panel.getByRole("button", { name: "Python" }).click();

  // The session has loaded the earlier version, and a restart takes the new one.
  await field.fill("humanize==4.10.0");
  await panel.getByRole("button", { name: "Install humanize==4.10.0" }).focus();
  await page.keyboard.press("Enter");
  await expect(own.getByRole("listitem")).toHaveText(["humanize4.10.0"]);
  await expect(field).toBeFocused(); // the button is gone
  await expect(panel.getByText("A session has loaded another version of humanize.")).toBeVisible();
  await panel.getByRole("button", { name: "Restart" }).click();
  await expect(panel.getByText("A session has loaded another version of humanize.")).toHaveCount(0);
  await person.code.click();
  await person.run();
  await expect(person.last).toContainText("4.10.0");

  // What a cell installs is listed, too.
  await person.write("!pip install humanize==4.9.0\n");
  await person.run();
  await expect(own.getByRole("listitem")).toHaveText(["humanize4.9.0"]);

  await panel.getByRole("button", { name: "Remove humanize" }).click();
  await expect(panel.getByText("humanize is removed.")).toBeVisible();
  await expect(own).toHaveCount(0);
  await expect(field).toBeFocused();
});
