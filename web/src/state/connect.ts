/** How programs and AI clients reach this server: what to write, and where. */

import { CLIENTS } from "../api/clients";
import * as api from "../api/keys";
import { keys, loadCurrent } from "./keys";
import { createStore } from "./store";

export interface Step {
  /** Where the text goes. */
  where: string;
  text: (url: string, key: string) => string;
}

export interface Way {
  id: string;
  title: string;
  group: "AI clients" | "Programs";
  steps: Step[];
}

export const PLACEHOLDER = "YOUR_KEY";

const install = (name: string): Step => ({
  where: "Run this on the machine of the client. It shows the change and asks first:",
  text: (url, key) => `CLOCHE_API_KEY=${key} cloche mcp install --client ${name} --url ${url}`,
});

type Platform = "mac" | "windows" | "linux";

export const platformOf = (agent: string): Platform => (/Mac|iPhone|iPad/.test(agent) ? "mac" : /Win/.test(agent) ? "windows" : "linux");

const folders: Record<Platform, Record<"home" | "settings", string>> = {
  mac: { home: "~/", settings: "~/Library/Application Support/" },
  windows: { home: "%USERPROFILE%\\", settings: "%APPDATA%\\" },
  linux: { home: "~/", settings: "~/.config/" },
};

function placeOf(folder: "home" | "settings", file: string, platform: Platform): string {
  const place = folders[platform][folder] + file;
  return platform === "windows" ? place.replaceAll("/", "\\") : place;
}

/** A key in the form that E2B's clients of every version accept: hexadecimal, behind their prefix. */
export const forE2b = (key: string): string =>
  key.startsWith("cloche_") && !key.includes("•") ? `e2b_${[...new TextEncoder().encode(key)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}` : key;

export function waysOf(platform: Platform): Way[] {
  const clients = CLIENTS.map(
    ({ name, title, folder, file, config }): Way => ({
      id: name,
      title,
      group: "AI clients",
      steps: [
        { where: `Put this into ${placeOf(folder, file, platform)}:`, text: (url, key) => config.replaceAll("{url}", url).replaceAll("{key}", key) },
        install(name),
      ],
    }),
  );
  return [
    ...clients,
    {
      id: "codex",
      title: "Codex",
      group: "AI clients",
      steps: [
        {
          where: `Put this into ${placeOf("home", ".codex/config.toml", platform)}:`,
          text: (url, key) => `[mcp_servers.cloche]\nurl = "${url}/mcp"\nhttp_headers = { Authorization = "Bearer ${key}" }`,
        },
      ],
    },
    {
      id: "python",
      title: "Python",
      group: "Programs",
      steps: [
        {
          where: "With the library “cloche”:",
          text: (url, key) => `import cloche\n\nwith cloche.Sandbox(url="${url}", api_key="${key}") as box:\n    box.run("x = 6")\n    print(box.run("x * 7").text)`,
        },
      ],
    },
    {
      id: "curl",
      title: "curl",
      group: "Programs",
      steps: [
        {
          where: "Any program that speaks HTTP can do this:",
          text: (url, key) => `curl ${url}/v1/run -H "Authorization: Bearer ${key}" \\\n  --json '{"code": "print(6 * 7)"}'`,
        },
      ],
    },
    {
      id: "e2b",
      title: "E2B",
      group: "Programs",
      steps: [
        {
          where: "Programs written for E2B use this server when these variables are set:",
          text: (url, key) => `export E2B_API_URL=${url}\nexport E2B_SANDBOX_URL=${url}\nexport E2B_VOLUME_API_URL=${url}\nexport E2B_API_KEY=${forE2b(key)}`,
        },
      ],
    },
    {
      id: "shell",
      title: "Command line",
      group: "Programs",
      steps: [
        {
          where: "The command “cloche” and the library use this server when these variables are set:",
          text: (url, key) => `export CLOCHE_URL=${url}\nexport CLOCHE_API_KEY=${key}`,
        },
      ],
    },
  ];
}

interface Connect {
  /** Secrets that were created here, by way. They are kept in this page's memory and nowhere else. */
  secrets: Record<string, string>;
}

export const connect = createStore<Connect>({ secrets: {} });

/** Creates a key that may run code, for one client. */
export async function createFor(way: Way): Promise<void> {
  if (!keys.get().current) await loadCurrent();
  const owner = keys.get().current?.owner ?? "";
  const made = await api.createKey({ owner, name: way.title, scopes: ["run"] });
  connect.set(({ secrets }) => ({ secrets: { ...secrets, [way.id]: made.key ?? "" } }));
}

/** A key as it may be shown to somebody who looks over a shoulder. */
export const hidden = (key: string): string => `${key.slice(0, 7)}${"•".repeat(16)}`;
