import { ChevronDown, Command, House, Moon, Pencil, Plus, Share2, Sun } from "lucide-react";
import { useEffect, useState } from "react";
import { app, isDark, setTheme, toggleSide } from "../state/app";
import { keysOf, perform } from "../state/commands";
import { change, nameOf, sandbox } from "../state/sandbox";
import { openSharing } from "../state/sharing";
import { useStore } from "../state/store";
import { attempt } from "../state/toasts";
import { Wordmark } from "../ui/Bell";
import { IconButton } from "../ui/Button";
import { classes } from "../ui/classes";
import { Ask } from "../ui/Dialog";
import { Menu } from "../ui/Menu";

/** The name of the open sandbox, its remaining time, and actions for the whole page. */
export function TopBar() {
  const record = useStore(sandbox, (state) => state.record);
  const phase = useStore(sandbox, (state) => state.phase);
  useStore(app, (state) => state.dark);
  const [naming, setNaming] = useState(false);
  return (
    <header className="flex h-11 shrink-0 items-center gap-3 px-3">
      <a href="#" aria-label="Cloche: start page" className="rounded-md">
        <Wordmark />
      </a>
      <h1 className="sr-only">{record ? nameOf(record) : "Cloche"}</h1>
      {record && (
        <>
          <span className="text-line-strong" aria-hidden="true">
            /
          </span>
          <Menu
            trigger={
              <button type="button" className="flex min-w-0 items-center gap-1.5 rounded-md px-1.5 py-1 font-medium hover:bg-hover">
                <Pulse />
                <span className="truncate">{nameOf(record)}</span>
                <ChevronDown size={13} className="text-ink-faint" />
              </button>
            }
            entries={[
              { label: "Rename", onSelect: () => setNaming(true), icon: <Pencil size={14} />, disabled: phase !== "open" },
              { label: "All sessions", onSelect: () => toggleSide("sessions"), disabled: phase !== "open" },
              null,
              { label: "New sandbox", onSelect: () => (location.hash = ""), icon: <Plus size={14} /> },
              { label: "Start page", onSelect: () => (location.hash = ""), icon: <House size={14} /> },
            ]}
          />
          {phase === "open" && <TimeLeft />}
        </>
      )}
      <div className="ml-auto flex items-center gap-0.5">
        {phase === "open" && (
          <IconButton label="Share a snapshot" keys={keysOf("share")} onClick={openSharing}>
            <Share2 size={15} />
          </IconButton>
        )}
        <IconButton label="All commands" keys={keysOf("palette")} onClick={() => perform("palette")}>
          <Command size={15} />
        </IconButton>
        <IconButton label={isDark() ? "Light theme" : "Dark theme"} onClick={() => setTheme(isDark() ? "light" : "dark")}>
          {isDark() ? <Sun size={15} /> : <Moon size={15} />}
        </IconButton>
      </div>
      <Ask
        open={naming}
        title="Rename the sandbox"
        label="Name"
        initial={record ? nameOf(record) : ""}
        action="Rename"
        onClose={() => setNaming(false)}
        onAnswer={(name) => attempt(() => change({ name }))}
      />
    </header>
  );
}

/** Shows whether the sandbox is alive and connected. */
function Pulse() {
  const { phase, connected } = useStore(sandbox, (state) => state);
  const [tint, label] =
    phase !== "open" ? ["bg-ink-faint", "ended"] : connected ? ["bg-accent", "alive"] : ["bg-warn breathe", "connecting"];
  return <span role="img" aria-label={label} title={label} className={classes("size-2 shrink-0 rounded-full", tint)} />;
}

const SOON_S = 15 * 60;

function TimeLeft() {
  const expires = useStore(sandbox, (state) => state.record?.expires ?? null);
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 10_000);
    return () => clearInterval(timer);
  }, []);
  if (expires === null) return null;
  const left = Math.max(0, expires - now);
  const text = left > 5400 ? `${Math.round(left / 3600)} h left` : `${Math.ceil(left / 60)} min left`;
  const isSoon = left < SOON_S;
  return (
    <Menu
      trigger={
        <button type="button" className={classes("rounded-md px-1.5 py-0.5 text-xs hover:bg-hover max-md:hidden", isSoon ? "bg-warn-soft text-warn" : "text-ink-faint")}>
          {text}
        </button>
      }
      entries={[
        "Extend its life to",
        ...([["1 hour", 3600], ["4 hours", 14400], ["1 day", 86400]] as const).map(([label, ttl]) => ({
          label,
          onSelect: () => attempt(() => change({ ttl })),
        })),
      ]}
    />
  );
}
