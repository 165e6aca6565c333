import type { Page, Route } from "@playwright/test";
import { address, expect, key, test } from "./bench";

/** It goes on until this time is over; SECONDS=600 SEED=7 tries more. */
const SECONDS = Number(process.env.SECONDS ?? 8);
const SEED = Number(process.env.SEED ?? 1);

/** Numbers between 0 and 1, the same for the same seed (mulberry32). */
function dice(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const words = (text: string): string[] => text.match(/\b[ab]\d+\b/g) ?? [];
const conflict = (page: Page) => page.getByText("Someone else changed this file");

/** The words in the editor, once it is still: saved, or with a conflict that the person has to settle. */
async function still(page: Page): Promise<string[]> {
  await expect(page.getByText("Saved", { exact: true }).or(conflict(page)).first()).toBeVisible();
  return words(await page.locator(".monaco-editor .view-lines").first().innerText());
}

test("nothing typed is lost when two tabs edit one file, whatever the timing", async ({ person, browsed }) => {
  test.setTimeout((120 + SECONDS) * 1000);
  const random = dice(SEED);
  const below = (limit: number): number => Math.floor(random() * limit);
  await person.begin({ "code/main.py": "" });
  const other = await browsed.newPage();
  await other.goto(`${address()}/?key=${key()}`);
  await other.goto(person.page.url());
  const tabs = [person.page, other] as const;

  /** Requests take a while, and some answers are lost on the way. */
  const slowly = async (route: Route): Promise<void> => {
    const [before, after, isLost] = [below(250), below(250), below(12) === 0];
    await new Promise((resolve) => setTimeout(resolve, before));
    try {
      const answer = await route.fetch();
      await new Promise((resolve) => setTimeout(resolve, after));
      await (isLost ? route.abort() : route.fulfill({ response: answer }));
    } catch {
      // the page was reloaded meanwhile
    }
  };
  for (const page of tabs) {
    await page.locator(".monaco-editor .view-lines").first().waitFor({ timeout: 15_000 });
    await page.route(/\/files\/|\/stat\?/, slowly);
  }

  let count = 0;
  let conflicts = 0;
  const end = Date.now() + SECONDS * 1000;
  for (let round = 0; Date.now() < end; round++) {
    const about = `seed ${SEED}, round ${round}`;
    const before = words(await person.file("code/main.py"));
    const typed = [...before];
    for (let step = 0; step < 3 + below(4); step++) {
      const index = below(2);
      const page = tabs[index] ?? other;
      const word = `${"ab"[index]}${++count}`;
      await page.locator(".monaco-editor textarea").first().focus({ timeout: 15_000 });
      await page.keyboard.press("Control+End");
      await page.keyboard.insertText(`${word} `);
      typed.push(word);
      if (below(6) === 0) {
        await page.reload();
        await page.locator(".monaco-editor .view-lines").first().waitFor({ timeout: 15_000 });
      } else await page.waitForTimeout(below(900));
    }
    // In the end each word is in the sandbox, or in a tab that shows a conflict.
    let seen: string[] = [];
    await expect(async () => {
      const texts = await Promise.all(tabs.map(still));
      const file = words(await person.file("code/main.py"));
      for (const [index, page] of tabs.entries()) {
        if (!(await conflict(page).isVisible())) expect(texts[index], `${about}: a tab without a conflict shows the file`).toEqual(file);
      }
      seen = [...file, ...texts.flat()];
    }).toPass({ timeout: 15_000 });
    expect(typed.filter((word) => !seen.includes(word)), `${about}: these are lost`).toEqual([]);
    // The person settles each conflict; the other tab then has the same text, or a conflict of its own.
    await expect(async () => {
      for (const page of tabs) {
        if (!(await conflict(page).isVisible())) continue;
        conflicts++;
        await page.getByRole("button", { name: below(2) === 0 ? "Keep mine" : "Take theirs" }).click({ timeout: 5000 });
      }
      const [first, second] = await Promise.all(tabs.map(still));
      expect(first).toEqual(second);
      expect(words(await person.file("code/main.py"))).toEqual(first);
    }, about).toPass({ timeout: 20_000 });
  }
  console.log(`${count} words, ${conflicts} conflicts`);
  await other.close();
  person.complaints.length = 0; // of the answers that were lost
});
