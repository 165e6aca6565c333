import { serious } from "./axe";
import { expect, test, type Person } from "./bench";

/** Runs the file; where many share the machine, the first import of pandas takes a while. */
async function runToTheEnd(person: Person): Promise<void> {
  await person.page.keyboard.press("Control+Enter");
  await expect(person.last).toHaveAttribute("data-phase", "done", { timeout: 45_000 });
}

const FRAME = [
  "import pandas as pd, numpy as np",
  "n = np.arange(100_000)",
  "df = pd.DataFrame({'value': n / 7, 'word': [f'row {i}' for i in n], 'day': pd.date_range('2020-01-01', periods=len(n), freq='D', unit='s')},",
  "                  index=pd.MultiIndex.from_arrays([n % 10, n], names=['group', 'item']))",
  "df",
].join("\n");

test("all rows of a displayed table can be scrolled to, sorted, filtered, copied and exported", async ({ person }) => {
  test.setTimeout(90_000);
  const { page } = person;
  await person.begin({ "code/main.py": FRAME });
  await person.code.click();
  await runToTheEnd(person);
  const grid = person.last.getByRole("grid", { name: "Table" });
  await expect(grid).toHaveAttribute("aria-rowcount", "100001");
  // Six digits, and the labels apart from the values.
  await expect(grid.getByRole("row").nth(2)).toContainText("0.14286");
  await expect(grid.getByRole("row").nth(2).getByRole("rowheader")).toHaveText(["1", "1"]);
  await person.shot("table-light");

  await grid.focus();
  await page.keyboard.press("Control+End");
  await expect(grid.getByRole("gridcell", { name: "row 99999" })).toBeVisible();
  await page.keyboard.press("Control+Home");

  await grid.getByRole("button", { name: "value" }).click();
  await grid.getByRole("button", { name: "value" }).click();
  await expect(grid.getByRole("columnheader", { name: "value" })).toHaveAttribute("aria-sort", "descending");
  await expect(grid.getByRole("row").nth(1)).toContainText("row 99999");

  await person.last.getByRole("button", { name: "Search and filter" }).click();
  await page.getByRole("textbox", { name: "Filter group" }).fill("= 3");
  await page.getByRole("textbox", { name: "Filter value" }).fill("< 100");
  await expect(person.last.getByText("70 of 100,000 rows")).toBeVisible();
  await expect(grid.getByRole("row").nth(2)).toContainText("row 693");
  expect(await serious(page)).toEqual([]);
  await person.shot("table-filtered");

  await grid.getByRole("gridcell", { name: "row 693" }).click();
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Control+c");
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe("row 693\nrow 683\n");
  const download = page.waitForEvent("download");
  await person.last.getByRole("button", { name: "Export 70 rows as CSV" }).click();
  const file = await (await download).createReadStream();
  const lines = (await file.toArray()).join("").trim().split("\n");
  expect(lines).toHaveLength(71);
  expect(lines.slice(0, 2)).toEqual(["group,item,value,word,day", "3,693,99.0,row 693,2021-11-24"]);
  await page.getByRole("button", { name: "Remove all filters" }).click();
  await expect(person.last.getByText("100,000 rows × 3 columns")).toBeVisible();

  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("button", { name: "Output", exact: true }).click();
  await page.emulateMedia({ colorScheme: "dark" });
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await person.shot("table-phone");
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);

  // Without the session that has the table, its first rows stay.
  await person.api.post(`/v1/sandboxes/${person.sandbox}/restart`);
  await grid.getByRole("button", { name: "word" }).click();
  await expect(person.last.getByRole("alert")).toContainText("The session no longer holds this table. Only the first 50 rows are here.");
  await expect(grid.getByRole("columnheader", { name: "word" })).toHaveAttribute("aria-sort", "ascending");
  await expect(grid.getByRole("row").nth(2)).toContainText("row 1");
  person.complaints.length = 0;
});

const PICTURE = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAECAYAAACzzX7wAAAAFUlEQVR4nGP8z8Dwn4EIwESMIroqAABqDwMFsN5tHQAAAABJRU5ErkJggg==",
  "base64",
);
const FILES = [
  "import pandas as pd, os",
  "os.makedirs('/sandbox/data', exist_ok=True)",
  "df = pd.DataFrame({'n': range(5000), 't': [f'name {i}' for i in range(5000)]})",
  "df.to_csv('/sandbox/data/a.csv', index=False)",
  "df.to_parquet('/sandbox/data/b.parquet')",
  "with pd.ExcelWriter('/sandbox/data/c.xlsx') as book:",
  "    df.head(3).to_excel(book, sheet_name='First', index=False); df.tail(3).to_excel(book, sheet_name='Last', index=False)",
  "df.head(4).to_json('/sandbox/data/d.json', orient='records')",
  "from reportlab.pdfgen.canvas import Canvas",
  "pdf = Canvas('/sandbox/data/h.pdf')",
  "for page in range(3): pdf.drawString(100, 700, f'Text on page {page + 1}'); pdf.showPage()",
  "pdf.save(); open('/sandbox/data/i.pdf', 'w').write('%PDF-1.4 no')",
  "open('/sandbox/data/e.bin', 'wb').write(bytes(range(256)))",
  "open('/sandbox/data/f.parquet', 'w').write('no')",
].join("\n");

test("files open in views of their kind: tables, pictures, Markdown, and a sentence for the rest", async ({ person }) => {
  test.setTimeout(90_000);
  const { page } = person;
  await person.begin({ "code/main.py": FILES, "notes.md": "# Heading\n\n- [ ] one\n" });
  await person.api.put(`/v1/sandboxes/${person.sandbox}/files/data/g.png`, { data: PICTURE });
  await person.code.click();
  await runToTheEnd(person);
  const tree = page.getByRole("tree", { name: "Files of the sandbox" });
  const editor = page.getByRole("region", { name: "Editor" });
  const shown = editor.getByRole("group", { name: "Shown as" });
  await tree.getByRole("treeitem", { name: "data" }).click();
  const open = (name: string) => tree.getByRole("treeitem", { name, exact: true }).click();

  await open("a.csv");
  const grid = editor.getByRole("grid");
  await expect(grid).toHaveAttribute("aria-rowcount", "5001");
  await grid.focus();
  await page.keyboard.press("Control+End");
  await expect(grid.getByRole("gridcell", { name: "name 4999" })).toBeVisible();
  await person.shot("file-csv");
  expect(await serious(page)).toEqual([]);
  await shown.getByRole("button", { name: "Text" }).click();
  await expect(person.code).toContainText("name 1");

  await open("b.parquet");
  await expect(grid).toHaveAttribute("aria-rowcount", "5001");
  await expect(shown).toHaveCount(0);
  await open("c.xlsx");
  await expect(grid.getByRole("row").nth(1)).toContainText("name 0");
  await editor.getByRole("group", { name: "Sheets" }).getByRole("button", { name: "Last" }).click();
  await expect(grid.getByRole("row").nth(1)).toContainText("name 4997");
  await person.shot("file-excel");
  await open("d.json");
  await expect(grid.getByRole("row").nth(4)).toContainText("name 3");

  // Written anew by a program, a file is read again.
  await person.api.put(`/v1/sandboxes/${person.sandbox}/files/data/d.json`, { data: '[{"changed": 1}]' });
  await expect(grid.getByRole("columnheader", { name: "changed" })).toBeVisible();

  await open("f.parquet");
  await expect(editor.getByRole("alert")).toContainText("This file cannot be read as a table");
  await open("e.bin");
  await expect(editor.getByText("e.bin cannot be shown")).toBeVisible();
  await expect(editor.getByRole("link", { name: "Download it" })).toBeVisible();

  await open("g.png");
  await expect(editor.getByRole("img", { name: "g.png" })).toBeVisible();
  await expect(editor.getByText(/8 × 4 pixels/)).toBeVisible();
  await editor.getByRole("region", { name: "Picture g.png" }).focus();
  await page.keyboard.press("1");
  await page.keyboard.press("+");
  await expect(editor.getByText("150 %")).toBeVisible();
  await person.shot("file-picture");
  expect(await serious(page)).toEqual([]);

  await open("h.pdf");
  const frame = editor.frameLocator("iframe");
  await expect(frame.getByText("Text on page 1")).toBeVisible();
  await expect(editor.getByText(/^3 pages/)).toBeVisible();
  expect(await frame.locator("html").evaluate(() => origin)).toBe("null");
  await editor.getByRole("button", { name: "Larger" }).click();
  await expect(editor.getByText("125 %")).toBeVisible();
  await expect(frame.getByText("Text on page 1")).toBeVisible();
  await person.shot("file-pdf");
  await open("i.pdf");
  await expect(editor.getByText("This PDF is damaged, or is none.")).toBeVisible();

  await open("notes.md");
  await expect(person.code).toContainText("Heading");
  await shown.getByRole("button", { name: "Preview" }).click();
  await expect(editor.frameLocator("iframe").getByRole("heading", { name: "Heading" })).toBeVisible();
  person.complaints.length = 0;
});

test("uploads go to data, or to the folder that is selected, wherever they are dropped", async ({ person }) => {
  const { page } = person;
  await person.begin();
  const file = { mimeType: "text/csv", buffer: Buffer.from("a,b\n1,2\n") };
  await page.getByTestId("upload").setInputFiles({ ...file, name: "first.csv" });
  await expect.poll(() => person.file("data/first.csv")).toBe("a,b\n1,2\n");
  await page.getByRole("tree").getByRole("treeitem", { name: "output" }).click();
  const dropped = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(["dropped"], "second.txt"));
    return transfer;
  });
  await page.getByRole("region", { name: "Editor" }).dispatchEvent("drop", { dataTransfer: dropped });
  await expect.poll(() => person.file("output/second.txt")).toBe("dropped");
});

test("the result of a query is a table, in the place of its text", async ({ person }) => {
  await person.begin({ "code/q.sql": "create table jars (n int);\nselect i as n, 'jar ' || i as jar from range(5000) r(i);\nselect 7 as seven;\n" });
  await person.code.click();
  await person.run();
  await expect(person.last.getByText("5,000 rows × 2 columns, of which the first 50 came with the result")).toBeVisible();
  await expect(person.last.getByRole("grid")).toHaveCount(2);
  await expect(person.last.getByText("CREATE TABLE")).toBeVisible();
  await expect(person.last.getByText("4900 of them not shown")).toHaveCount(0);
  const first = person.last.getByRole("grid").first();
  await first.focus();
  await person.page.keyboard.press("Control+End");
  await expect(first.getByRole("gridcell", { name: "jar 49", exact: true })).toBeVisible();
  await person.last.getByRole("button", { name: "Text" }).first().click();
  await expect(person.last.getByText("4900 of them not shown")).toBeVisible();
});
