/** A real server for all tests, on a port and with data of its own; CLOCHE_PAGE=url and CLOCHE_KEY=key take another. */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const python = join(import.meta.dirname ?? __dirname, "../../.venv/bin/python");

export const newFolder = (): string => mkdtempSync(join(tmpdir(), "cloche-page-"));

/** A server with its data in this folder; port 0 is any free one. */
export async function startServer(folder: string, port = 0, flags: string[] = [], env: Record<string, string> = {}): Promise<{ server: ChildProcess; address: string; key: string }> {
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CLOCHE_")));
  const server = spawn(python, ["-m", "cloche.cli.main", "serve", "--port", String(port), "--data-dir", folder, ...flags], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...inherited, ...env },
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
  return { server, address, key: readFileSync(join(folder, "key"), "utf8").trim() };
}

/** Ends a server, and waits until it has ended. */
export async function endServer(server: ChildProcess, signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
  server.removeAllListeners("exit");
  const over = new Promise((resolve) => server.once("exit", resolve));
  server.kill(signal);
  await over;
}

export default async function serve(): Promise<(() => Promise<void>) | void> {
  if (process.env.CLOCHE_PAGE) return;
  const folder = newFolder();
  const { server, address, key } = await startServer(folder);
  process.env.CLOCHE_PAGE = address;
  process.env.CLOCHE_KEY = key;
  return async () => {
    await endServer(server);
    rmSync(folder, { recursive: true, force: true });
  };
}
