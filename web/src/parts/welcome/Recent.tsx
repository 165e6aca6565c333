import { ArchiveRestore } from "lucide-react";
import { useEffect } from "react";
import { ago, bytes } from "../../state/format";
import { nameOf } from "../../state/sandbox";
import { followSessions, reopen, sessions, timeLeft } from "../../state/sessions";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";

/** The newest sandboxes, for the first page. */
export function Recent() {
  const { phase, alive, kept } = useStore(sessions, (state) => state);
  useEffect(followSessions, []);
  if (phase !== "ready" || (alive.length === 0 && kept.length === 0)) return null;
  const card = "pane flex items-center gap-3 px-3.5 py-2.5 text-left transition-colors hover:bg-hover";
  return (
    <section aria-label="Recent sandboxes">
      <h2 className="mb-2.5 text-xs font-semibold text-ink-soft">Continue where you left off</h2>
      <div className="grid gap-2 sm:grid-cols-2 lg:grid-cols-3">
        {alive.slice(0, 6).map(({ record, usage }) => (
          <a key={record.id} href={`#/s/${record.id}`} className={card}>
            <span className="size-2 shrink-0 rounded-full bg-accent" role="img" aria-label="alive" />
            <span className="min-w-0 flex-1">
              <span className="block truncate font-medium">{nameOf(record)}</span>
              <span className="block truncate text-2xs text-ink-faint">{[timeLeft(record.expires), usage ? bytes(usage.memory) : ""].filter(Boolean).join(" · ")}</span>
            </span>
          </a>
        ))}
        {kept.slice(0, Math.max(0, 6 - alive.length)).map(({ workspace, name }) => (
          <button key={workspace.id} type="button" className={card} onClick={() => attempt(() => reopen(workspace.id, name))}>
            <ArchiveRestore size={14} className="shrink-0 text-ink-faint" aria-hidden="true" />
            <span className="min-w-0 flex-1">
              <span className="block truncate font-medium">{name}</span>
              <span className="block truncate text-2xs text-ink-faint">{workspace.files} {workspace.files === 1 ? "file" : "files"} kept · {ago(workspace.saved * 1000)}</span>
            </span>
          </button>
        ))}
      </div>
    </section>
  );
}

