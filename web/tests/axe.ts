/** What axe finds in a page, as far as it is serious. */

import type { Page } from "@playwright/test";
import { readFileSync } from "node:fs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

interface Finding {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

export async function serious(page: Page): Promise<string[]> {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const tool = (window as unknown as { axe: { run: (context: object, options: object) => Promise<{ violations: Finding[] }> } }).axe;
    // What Monaco and xterm make of their own insides is not ours to mend.
    return (await tool.run({ exclude: [".monaco-editor", ".xterm", "iframe"] }, { resultTypes: ["violations"] })).violations;
  });
  return found
    .filter((one) => one.impact === "serious" || one.impact === "critical")
    .map((one) => `${one.id}: ${one.nodes.map((node) => `${node.html.slice(0, 200)} ${node.failureSummary.slice(0, 300)}`).join("\n")}`);
}
