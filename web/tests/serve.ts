/** A real server for all tests, on a port and with data of its own; CLOCHE_PAGE=url and CLOCHE_KEY=key take another. */

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export default async function serve(): Promise<(() => Promise<void>) | void> {
  if (process.env.CLOCHE_PAGE) return;
  const folder = mkdtempSync(join(tmpdir(), "cloche-page-"));
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CLOCHE_")));
  const python = join(import.meta.dirname ?? __dirname, "../../.venv/bin/python");
  const server = spawn(python, ["-m", "cloche.cli.main", "serve", "--port", "0", "--data-dir", folder], {
    stdio: ["ignore", "pipe", "inherit"],
    env: inherited,
  });
  const address = await new Promise<string>((resolve, reject) => {
    let told = "";
    server.stdout.on("data", (piece: Buffer) => {
      told += piece.toString();
      const found = /ready at (\S+)/.exec(told)?.[1];
      if (found) resolve(found);
    });
    server.once("exit", (code) => reject(new Error(`The server ended with ${code}: ${told}`)));
  });
  process.env.CLOCHE_PAGE = address;
  process.env.CLOCHE_KEY = readFileSync(join(folder, "key"), "utf8").trim();
  return async () => {
    server.removeAllListeners("exit");
    const over = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    await over;
    rmSync(folder, { recursive: true, force: true });
  };
}
