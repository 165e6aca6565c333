import { expect, test } from "./bench";

test("charts, tables, pages, formulas and data are shown in order", async ({ person }) => {
  const { page } = person;
  await person.begin();
  await person.write(
    [
      "import pandas as pd, matplotlib.pyplot as plt",
      "from IPython.display import *",
      "print('first')",
      "fig, ax = plt.subplots(figsize=(5, 2.6)); ax.bar(['a', 'b', 'c'], [3, 1, 2]); ax.set_title('Sales'); plt.show()",
      "display(pd.DataFrame({'n': range(40), 'word': [f'w{i}' for i in range(40)]}))",
      "display(HTML('<b id=h>bold</b><script>document.getElementById(\"h\").textContent = origin</script>'))",
      "display(Latex(r'$\\frac{1}{3}$'), JSON({'deep': {'er': [1, None]}}), Markdown('## Heading'))",
      "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"40\" height=\"20\"><rect width=\"40\" height=\"20\"/></svg>'))",
      "import numpy as np; display(Audio(np.zeros(800), rate=8000))",
      "open('/sandbox/output/report.csv', 'w').write('a,b\\n1,2\\n'); None",
    ].join("\n"),
  );
  await person.run();
  const run = person.last;
  await expect(run.getByRole("img", { name: "Sales" })).toBeVisible();
  const table = run.getByRole("grid", { name: "Table" });
  await expect(table).toHaveAttribute("aria-rowcount", "41");
  await table.getByRole("button", { name: "n", exact: true }).click();
  await table.getByRole("button", { name: "n", exact: true }).click();
  await expect(table.getByRole("row").nth(1)).toContainText("w39");
  // The frame has no origin: nothing of ours can be read from it.
  await expect(run.frameLocator("iframe").first().locator("#h")).toHaveText("null");
  await expect(run.locator(".katex").first()).toBeVisible();
  await expect(run.getByText("deep")).toBeVisible();
  await expect(run.getByText("report.csv")).toBeVisible();
  await person.shot("results");

  await run.getByRole("button", { name: "Zoom: Sales" }).click();
  await page.getByRole("button", { name: "Larger" }).click();
  await expect(page.getByText("150 %")).toBeVisible();
  const download = page.waitForEvent("download");
  await page.getByRole("dialog").getByRole("link", { name: /Save chart/ }).click();
  expect((await download).suggestedFilename()).toMatch(/chart-\d+\.png/);
  await expect(async () => {
    await page.keyboard.press("Escape"); // lost, while the browser is busy with the download
    await expect(page.getByRole("dialog")).toHaveCount(0, { timeout: 1000 });
  }).toPass();

  await run.getByRole("button", { name: "Preview output/report.csv" }).click();
  await expect(page.getByRole("dialog")).toContainText("a,b");
});

test("Plotly and Altair draw themselves, without any host to load from", async ({ person }) => {
  await person.begin();
  await person.write("import plotly.express as px\npx.bar(x=['a', 'b'], y=[1, 3], title='Bars')\n");
  await person.run();
  await expect(person.last.frameLocator("iframe").locator(".plot-container .gtitle")).toHaveText("Bars");
  await person.write("import altair as alt, pandas as pd\nalt.Chart(pd.DataFrame({'a': [1, 2], 'b': [3, 4]})).mark_bar().encode(x='a', y='b')\n");
  await person.run();
  await expect(person.last.frameLocator("iframe").locator("#chart canvas, #chart svg").first()).toBeVisible();
  await person.shot("charts");
});

test("the page looks after itself: sign-in, an unknown sandbox, one that has ended", async ({ person, page }) => {
  await page.goto(`${process.env.CLOCHE_PAGE}/`);
  await page.getByLabel("Key").fill("cloche_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("does not know this key");
  await person.shot("sign-in");
  await page.getByLabel("Key").fill(process.env.CLOCHE_KEY ?? "");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("button", { name: "Sign in" })).toHaveCount(0);
  await expect(page.getByRole("heading").first()).toBeVisible();
  await page.goto(`${process.env.CLOCHE_PAGE}/#/s/sbx_nothing`);
  await expect(page.getByRole("alert")).toBeVisible();
  await person.begin({ "code/main.py": "kept = 'on disk'\n" });
  await person.api.delete(`/v1/sandboxes/${person.sandbox}`);
  await expect(page.getByText("This sandbox has ended")).toBeVisible();
  await person.shot("ended");
  await page.getByRole("button", { name: "Reopen its files" }).click();
  await expect(person.code).toContainText("on disk");
});
