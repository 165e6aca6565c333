import { page, browser, base, key, shot } from "./scratch-w2.mjs";
await page.goto(`${base}/?key=${key}`);
await page.getByRole("button", { name: /A chart from data/ }).click();
await page.waitForTimeout(25000);
await shot("x");
console.log(page.url()); console.log(await page.locator("section[data-phase]").last().innerText());
await browser.close();
