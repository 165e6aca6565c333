import type { Locator } from "@playwright/test";
import { expect, test } from "./bench";

/** The texts in these elements whose contrast with what is behind them is less than 4.5. */
const unreadable = (rows: Locator): Promise<string[]> =>
  rows.evaluateAll((elements) => {
    const numbers = (colour: string): number[] => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const light = (colour: number[]): number => {
      const [red = 0, green = 0, blue = 0] = colour.map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const behind = (element: Element | null): number[] => {
      if (!element) return [255, 255, 255];
      const colour = numbers(getComputedStyle(element).backgroundColor);
      return colour.length === 3 || colour[3] === 1 ? colour.slice(0, 3) : behind(element.parentElement);
    };
    const found: string[] = [];
    for (const leaf of elements.flatMap((row) => [...row.querySelectorAll("span")])) {
      if (leaf.childElementCount > 0 || !leaf.textContent?.trim() || leaf.getClientRects().length === 0) continue;
      const [text, ground] = [light(numbers(getComputedStyle(leaf).color).slice(0, 3)), light(behind(leaf))];
      const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
      if (contrast < 4.5) found.push(`${leaf.textContent}: ${contrast.toFixed(1)}`);
    }
    return found;
  });

test("what is typed is saved, and is there after a reload", async ({ person }) => {
  await person.begin({ "code/main.py": "print(1)\n" });
  await person.write("answer = 6 * 7\n");
  await expect(person.page.getByText("Saving")).toBeVisible();
  await person.saved();
  expect(await person.file("code/main.py")).toBe("answer = 6 * 7\n");
  // Typed and reloaded at once: before anything could be saved.
  await person.page.keyboard.insertText("# last words\n");
  await person.page.reload();
  await expect(person.code).toContainText("last words");
  await person.saved();
  expect(await person.file("code/main.py")).toContain("# last words");
});

test("nothing is lost while the server cannot be reached", async ({ person }) => {
  await person.begin({ "code/main.py": "x = 1\n" });
  await person.page.context().setOffline(true);
  await person.write("typed = 'offline'\n");
  await expect(person.page.getByText("kept in this browser").first()).toBeVisible();
  await person.shot("offline");
  await person.page.context().setOffline(false);
  await person.saved();
  expect(await person.file("code/main.py")).toBe("typed = 'offline'\n");
  person.complaints.length = 0;
});

test("files are made, renamed, moved, deleted and dropped in the tree", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "", "data/old.csv": "a,b\n1,2\n" });
  const tree = page.getByRole("tree", { name: "Files of the sandbox" });
  await page.getByRole("button", { name: "New file" }).click();
  await page.getByLabel("Name").fill("notes/todo.md");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("tab", { name: "todo.md" })).toHaveAttribute("aria-selected", "true");
  expect(await person.file("code/notes/todo.md")).toBe("");

  await tree.getByRole("treeitem", { name: "data" }).click();
  await tree.getByRole("treeitem", { name: "old.csv" }).click({ button: "right" });
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.getByLabel("Name").fill("new.csv");
  await page.keyboard.press("Enter");
  await expect(tree.getByRole("treeitem", { name: "new.csv" })).toBeVisible();

  await tree.getByRole("treeitem", { name: "new.csv" }).dragTo(tree.getByRole("treeitem", { name: "output" }));
  await expect.poll(() => person.file("output/new.csv")).toBe("a,b\n1,2\n");

  const moved = tree.locator('[data-path$="/output/new.csv"]'); // until then, the tree has it in the old place
  await moved.click({ button: "right" });
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await expect(moved).toHaveCount(0);
  expect(await person.file("output/new.csv")).toBe("(404)");

  // From the desktop: dropped, with the folder it is in.
  const transfer = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
    return data;
  });
  await tree.getByRole("treeitem", { name: "data" }).dispatchEvent("drop", { dataTransfer: transfer });
  await expect.poll(() => person.file("data/dropped.txt")).toBe("dropped");

  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Upload and download" }).click();
  await page.getByRole("menuitem", { name: "Download everything as a zip" }).click();
  expect((await download).suggestedFilename()).toBe("sandbox.zip");
});

test("what others write is seen, and never overwrites what is being typed", async ({ person }) => {
  await person.begin({ "code/main.py": "first\n" });
  const address = `/v1/sandboxes/${person.sandbox}/files/code/main.py`;
  await person.api.put(address, { data: "from an agent\n" });
  await expect(person.code).toContainText("from an agent");
  // Both at once: the person decides.
  await person.page.route("**/files/**", (route) => (route.request().method() === "PUT" ? route.abort() : route.continue()));
  await person.write("mine");
  await person.api.put(address, { data: "theirs, later\n" });
  await expect(person.page.getByText("Someone else changed this file")).toBeVisible();
  await person.page.unroute("**/files/**");
  // The question outlives any number of reloads.
  for (let times = 1; times <= 2; times++) {
    await person.page.reload();
    await expect(person.code).toContainText("mine");
    await expect(person.page.getByText("Someone else changed this file")).toBeVisible();
  }
  expect(await person.file("code/main.py")).toBe("theirs, later\n");
  await person.page.getByRole("button", { name: "Keep mine" }).click();
  await person.saved();
  expect(await person.file("code/main.py")).toBe("mine");
  person.complaints.length = 0;
});

test("Python is completed, explained, checked and formatted", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "import math\nunused   =  undefined_thing( 1,2 )\n" });
  await expect(page.locator(".squiggly-warning, .squiggly-error").first()).toBeVisible();
  await person.code.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("math.factor", { delay: 30 });
  const suggestion = page.locator(".suggest-widget .monaco-list-row", { hasText: "factorial" }).first();
  await expect(suggestion).toBeVisible();
  for (const theme of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await expect(page.locator("html")).toHaveAttribute("data-theme", theme);
    await page.waitForTimeout(200); // colours change softly
    expect(await unreadable(page.locator(".suggest-widget .monaco-list-row"))).toEqual([]);
    await person.shot(`${theme}-completion`);
  }
  await page.keyboard.press("Tab");
  await expect(person.code).toContainText("math.factorial");
  await page.keyboard.press("Shift+Alt+F");
  await expect(person.code).toContainText("unused = undefined_thing(1, 2)");
  await page.locator(".view-line span", { hasText: "factorial" }).last().hover();
  await expect(page.locator(".monaco-hover", { hasText: "factorial" }).first()).toBeVisible();
});

test("TypeScript is checked and completed", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.ts": "const words: string[] = ['a'];\nconst wrong: number = 'text';\n" });
  await expect(page.getByText("1 error")).toBeVisible();
  await person.code.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("words.flat", { delay: 30 });
  await expect(page.locator(".suggest-widget .monaco-list-row", { hasText: "flatMap" }).first()).toBeVisible();
});

test("every language that the server offers is highlighted", async ({ person }) => {
  test.setTimeout(120_000);
  const { page } = person;
  const offered = (await (await person.api.get("/v1/languages")).json()) as { items: { extensions: string[] }[] };
  const endings = offered.items.flatMap(({ extensions }) => extensions.slice(0, 1)).map((one) => one.replace(/^\./, ""));
  expect(endings.length).toBeGreaterThan(10);
  const text = (ending: string): string => `${ending === "php" ? "<?php " : ""}if 42 "text" 'a'\n`;
  const files = Object.fromEntries(endings.map((ending) => [`code/in_${ending}.${ending}`, text(ending)]));
  await person.begin({ ...files, "code/table.csv": "a,b\n1,2\n" });
  const plain: string[] = [];
  for (const ending of endings) {
    await page.getByRole("treeitem", { name: `in_${ending}.${ending}`, exact: true }).click();
    const tab = page.getByRole("tab", { name: `in_${ending}.${ending}` });
    await expect(tab).toHaveAttribute("aria-selected", "true");
    await expect(tab).toBeInViewport({ ratio: 0.95 }); // also where there are more tabs than fit
    await expect(person.code).toContainText("42");
    const colours = () => person.code.locator("span[class*=mtk]").evaluateAll((all) => new Set(all.map((one) => getComputedStyle(one).color)).size);
    await expect.poll(colours, { timeout: 3000 }).toBeGreaterThan(1).catch(() => plain.push(ending));
  }
  expect(plain, "these are shown without colours").toEqual([]);
  await page.getByRole("treeitem", { name: "table.csv" }).click();
  await expect(page.getByRole("tab", { name: "table.csv" })).toBeInViewport({ ratio: 0.95 }); // its views leave less room
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await page.waitForTimeout(200);
    await person.shot(`${theme}-languages`);
  }
});

test("the palette finds commands and files, by keyboard alone", async ({ person }) => {
  const { page } = person;
  await person.begin({ "code/main.py": "", "code/second.py": "second = True\n" });
  await person.code.click();
  await page.keyboard.press("Control+Shift+P");
  await page.keyboard.type("second");
  await expect(page.getByRole("option", { name: /second.py/ })).toBeVisible();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("tab", { name: "second.py" })).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("F1");
  await page.keyboard.type("dark");
  await page.keyboard.press("Enter");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});
