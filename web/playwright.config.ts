import { defineConfig } from "@playwright/test";
import { existsSync } from "node:fs";

// The one without a window first: it takes a quarter less of the processor.
const browser = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  outputDir: "results/failed",
  globalSetup: "./tests/serve.ts",
  fullyParallel: true,
  workers: Number(process.env.WORKERS ?? 2),
  retries: process.env.CI ? 1 : 0, // told as flaky; where others share the machine, a browser may be late once
  timeout: 45_000,
  expect: { timeout: 15_000 },
  reporter: [["line"]],
  use: {
    browserName: "chromium",
    launchOptions: { ...(browser ? { executablePath: browser } : {}), args: ["--no-sandbox", "--disable-gpu"] },
    screenshot: "only-on-failure",
  },
});
