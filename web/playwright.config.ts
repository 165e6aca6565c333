import { defineConfig } from "@playwright/test";
import { existsSync } from "node:fs";

const browser = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find(existsSync);

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  outputDir: "results/failed",
  globalSetup: "./tests/serve.ts",
  fullyParallel: true,
  workers: Number(process.env.WORKERS ?? 2),
  retries: 0,
  timeout: 45_000,
  expect: { timeout: 15_000 },
  reporter: [["line"]],
  use: {
    browserName: "chromium",
    launchOptions: { ...(browser ? { executablePath: browser } : {}), args: ["--no-sandbox"] },
    screenshot: "only-on-failure",
  },
});
