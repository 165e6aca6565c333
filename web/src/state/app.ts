/** State of the whole page: sign-in, connection, theme, layout. */

import * as api from "../api/cloche";
import { onContact } from "../api/http";
import type { LanguageAnswer } from "../api/schema";
import { keep, recall } from "./kept";
import { createStore } from "./store";

export type Theme = "light" | "dark" | "system";
export type SidePart = "files" | "variables" | "timeline" | "watch" | "packages" | "network" | "sessions";
/** What a phone shows: one at a time. */
export type View = "side" | "code" | "output" | "terminal";

interface App {
  access: "unknown" | "granted" | "refused";
  online: boolean;
  version: string;
  languages: LanguageAnswer[];
  theme: Theme;
  /** The effective theme; the system may change it at any time. */
  dark: boolean;
  side: SidePart | null;
  terminal: boolean;
  view: View;
  palette: boolean;
  inspector: boolean;
  limits: boolean;
}

interface Layout {
  side: SidePart | null;
  terminal: boolean;
}

const layout = recall<Layout>("layout", { side: "files", terminal: false });

export const app = createStore<App>({
  access: "unknown",
  online: true,
  version: "",
  languages: [],
  theme: recall<Theme>("theme", "system"),
  dark: false,
  side: layout.side,
  terminal: layout.terminal,
  view: "code",
  palette: false,
  inspector: false,
  limits: false,
});

/** Asks for the server's version, which also shows whether it accepts our key. */
export async function enter(): Promise<void> {
  const [about, languages] = await Promise.all([api.version(), api.languages()]);
  app.set({ access: "granted", version: about.version, languages });
}

/** Did the server send this browser here because the key in the address was wrong? Answers once, and cleans the address. */
export function takeRefusal(): boolean {
  const refused = new URLSearchParams(location.search).has("refused");
  if (refused) history.replaceState(null, "", `/${location.hash}`);
  return refused;
}

onContact((reached, signedIn) => {
  const { online, access } = app.get();
  if (online !== reached) app.set({ online: reached });
  if (reached && !signedIn && access !== "refused") app.set({ access: "refused" });
});

// --- how it looks

const prefersDark = matchMedia("(prefers-color-scheme: dark)");

export const isDark = (theme: Theme = app.get().theme): boolean =>
  theme === "system" ? prefersDark.matches : theme === "dark";

export function applyTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  app.set({ dark: isDark() });
}

prefersDark.addEventListener("change", applyTheme);

export function setTheme(theme: Theme): void {
  keep("theme", theme);
  app.set({ theme });
  applyTheme();
}

// --- which parts are open

function remember(): void {
  const { side, terminal } = app.get();
  keep("layout", { side, terminal } satisfies Layout);
}

/** Open a part at the side; the one that is open is closed. */
export function toggleSide(part: SidePart): void {
  app.set(({ side, view }) => ({
    side: side === part && view !== "side" && !isPhone() ? null : part,
    view: isPhone() ? "side" : view,
  }));
  remember();
}

export function toggleTerminal(open?: boolean): void {
  app.set(({ terminal, view }) => {
    const now = open ?? (isPhone() ? view !== "terminal" : !terminal);
    return { terminal: now || terminal, view: now ? "terminal" : view === "terminal" ? "code" : view, ...(isPhone() ? {} : { terminal: now }) };
  });
  remember();
}

export const phone = matchMedia("(max-width: 767px)");
export const isPhone = (): boolean => phone.matches;
