import { expect, test } from "./bench";

// The picture in the README and in docs/playground.md: PICTURE=1 npm run see -- picture
test.skip(!process.env.PICTURE, "only when the picture is wanted");

const main = `# %% Load
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt

rng = np.random.default_rng(4)
days = pd.date_range("2026-03-01", periods=120)
growth = pd.DataFrame(
    {
        "fern": rng.normal(0.30, 0.12, 120).cumsum() + 12,
        "basil": rng.normal(0.22, 0.20, 120).cumsum() + 8,
        "mint": rng.normal(0.26, 0.16, 120).cumsum() + 5,
    },
    index=days,
)
growth.describe().round(1).reset_index(names="cm")

# %% Plot
fig, ax = plt.subplots(figsize=(7, 3.4))
for name, colour in zip(growth, ["#1f6b4f", "#c07a1a", "#26609f"]):
    ax.plot(growth.index, growth[name], label=name, color=colour, linewidth=2)
ax.set(title="Growth under glass", ylabel="height, cm")
ax.legend(frameon=False)
ax.xaxis.set_major_formatter(plt.matplotlib.dates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
print(f"tallest: {growth.iloc[-1].idxmax()}, {growth.iloc[-1].max():.1f} cm")
`;

test("the picture", async ({ person }) => {
  const { page } = person;
  await person.begin(
    { "code/main.py": main, "code/greenhouse.ts": "export const panes = 24;\n", "code/water.sh": "echo done\n", "data/sensors.csv": "t,h\n1,2\n", "code/notes.md": "# Notes\n" },
    { metadata: { name: "Greenhouse" }, ttl: 4 * 3600 },
  );
  for (const round of [1, 2]) {
    // Once to have everything imported, and once for the picture.
    if (round === 2) await page.getByRole("button", { name: "Clear the output" }).click();
    await person.code.click();
    await page.keyboard.press("Control+Home");
    await page.keyboard.press("Shift+Enter");
    await expect(person.last).toHaveAttribute("data-phase", "done");
    await page.keyboard.press("Control+Enter");
    await expect(page.locator("section[data-phase=done]")).toHaveCount(2);
  }
  await page.getByRole("treeitem", { name: "data" }).click();
  await page.keyboard.press("Control+Home");
  await page.mouse.move(700, 880);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: "../docs/playground.png" });
});
