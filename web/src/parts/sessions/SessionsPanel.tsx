import { ArchiveRestore, Clock, EllipsisVertical, ExternalLink, LayoutGrid, Pause, Pencil, Plus, RefreshCw, Trash2 } from "lucide-react";
import { useEffect, useState } from "react";
import type { SandboxAnswer } from "../../api/schema";
import { ago, bytes } from "../../state/format";
import { nameOf, sandbox } from "../../state/sandbox";
import { endSession, extendSession, followSessions, nameSession, refresh, removeKept, reopen, sessions, timeLeft, type Session } from "../../state/sessions";
import { titleOf } from "../../state/languages";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { IconButton } from "../../ui/Button";
import { classes } from "../../ui/classes";
import { Ask, Confirm } from "../../ui/Dialog";
import { Menu, type Entry } from "../../ui/Menu";
import { Pane } from "../../ui/Pane";
import { Empty, Failed, Loading } from "../../ui/states";
import { walk } from "../../ui/walk";

/** All sandboxes of this key: those of other tabs, agents and chats, too. */
export function SessionsPanel() {
  const { phase, problem, alive, kept } = useStore(sessions, (state) => state);
  const [naming, setNaming] = useState<SandboxAnswer | null>(null);
  const [ending, setEnding] = useState<SandboxAnswer | null>(null);
  const [removing, setRemoving] = useState<{ id: string; name: string } | null>(null);
  useEffect(followSessions, []);
  return (
    <Pane
      title="Sessions"
      actions={
        <>
          <IconButton label="Refresh" size="small" onClick={() => attempt(refresh)}>
            <RefreshCw size={13} />
          </IconButton>
          <IconButton label="New sandbox" size="small" onClick={() => (location.hash = "")}>
            <Plus size={14} />
          </IconButton>
        </>
      }
    >
      {phase === "none" ? (
        <Loading label="Loading sandboxes" />
      ) : phase === "failed" ? (
        <Failed problem={problem} retry={() => attempt(refresh)} />
      ) : alive.length === 0 && kept.length === 0 ? (
        <Empty icon={<LayoutGrid size={22} />} title="No sandboxes">Sandboxes that you, your agents and your chats create with this key appear here.</Empty>
      ) : (
        <div className="h-full overflow-y-auto py-1.5">
          <ul aria-label="Live sandboxes" onKeyDown={walk} className="flex flex-col gap-0.5 px-1.5">
            {alive.map((one) => (
              <Row key={one.record.id} session={one} onName={() => setNaming(one.record)} onEnd={() => setEnding(one.record)} />
            ))}
          </ul>
          {kept.length > 0 && (
            <section aria-label="Kept files">
              <h3 className="px-3 pt-4 pb-1 text-2xs font-medium text-ink-faint">Ended, files kept</h3>
              <ul className="flex flex-col gap-0.5 px-1.5">
                {kept.slice(0, 30).map(({ workspace, name }) => (
                  <li key={workspace.id} className="group/row flex items-center gap-1 rounded-lg pr-1 hover:bg-hover">
                    <button type="button" onClick={() => attempt(() => reopen(workspace.id, name))} className="flex min-w-0 flex-1 items-center gap-2 rounded-lg px-2 py-1.5 text-left">
                      <ArchiveRestore size={14} className="shrink-0 text-ink-faint" aria-hidden="true" />
                      <span className="min-w-0 flex-1 truncate">{name}</span>
                      <span className="text-2xs text-ink-faint">{workspace.files} {workspace.files === 1 ? "file" : "files"}, {ago(workspace.saved * 1000)}</span>
                    </button>
                    <IconButton label={`Delete the files of ${name}`} size="small" className="opacity-0 group-focus-within/row:opacity-100 group-hover/row:opacity-100 max-md:opacity-100" onClick={() => setRemoving({ id: workspace.id, name })}>
                      <Trash2 size={13} />
                    </IconButton>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </div>
      )}
      <Ask
        open={naming !== null}
        title="Rename the sandbox"
        label="Name"
        initial={naming ? nameOf(naming) : ""}
        action="Rename"
        onClose={() => setNaming(null)}
        onAnswer={(name) => naming && attempt(() => nameSession(naming, name))}
      />
      <Confirm
        open={ending !== null}
        title={`End ${ending ? nameOf(ending) : ""}?`}
        about={ending?.persistent ? "Its runs stop and its variables are lost. Its files are kept." : "Its runs stop. Its variables and files are lost."}
        action="End sandbox"
        onClose={() => setEnding(null)}
        onConfirm={() => ending && attempt(() => endSession(ending.id))}
      />
      <Confirm
        open={removing !== null}
        title={`Delete the files of ${removing?.name ?? ""}?`}
        about="This cannot be undone."
        action="Delete files"
        onClose={() => setRemoving(null)}
        onConfirm={() => removing && attempt(() => removeKept(removing.id))}
      />
    </Pane>
  );
}

const spans = [["1 hour", 3600], ["4 hours", 14400], ["1 day", 86400]] as const;

function Row({ session, onName, onEnd }: { session: Session; onName: () => void; onEnd: () => void }) {
  const { record, usage, contexts } = session;
  const here = useStore(sandbox, (state) => state.record?.id === record.id);
  const name = nameOf(record);
  const languages = [...new Set(contexts.map((context) => titleOf(context.language)))];
  const address = `#/s/${record.id}`;
  const entries: Entry[] = [
    { label: "Open in another tab", icon: <ExternalLink size={14} />, onSelect: () => void window.open(address, "_blank") },
    { label: "Rename", icon: <Pencil size={14} />, onSelect: onName },
    null,
    "Extend its life to",
    ...spans.map(([label, ttl]) => ({ label, icon: <Clock size={14} />, onSelect: () => attempt(() => extendSession(record, ttl)) })),
    null,
    { label: "End sandbox", icon: <Trash2 size={14} />, danger: true, onSelect: onEnd },
  ];
  return (
    <li className={classes("flex items-start rounded-lg pr-1", here ? "bg-accent-soft/70" : "hover:bg-hover")}>
      <a href={address} data-walk aria-current={here ? "page" : undefined} className="flex min-w-0 flex-1 items-start gap-2.5 rounded-lg px-2 py-2">
        <span className="mt-1.5 flex size-2 shrink-0 items-center justify-center">
          {record.paused ? <Pause size={11} className="text-warn" aria-label="paused" /> : <span className="size-2 rounded-full bg-accent" role="img" aria-label="alive" />}
        </span>
        <span className="min-w-0 flex-1">
          <span className="flex items-baseline gap-2">
            <span className="min-w-0 flex-1 truncate font-medium">{name}</span>
            <span className="shrink-0 text-2xs text-ink-faint tabular-nums">{timeLeft(record.expires)}</span>
          </span>
          <span className="block truncate text-2xs text-ink-soft">
            {[languages.join(", "), usage ? bytes(usage.memory) : "", `made ${ago(record.created * 1000)}`].filter(Boolean).join(" · ")}
          </span>
        </span>
      </a>
      <Menu
        align="end"
        trigger={
          <button type="button" aria-label={`More actions for ${name}`} className="mt-1.5 inline-flex size-6 shrink-0 items-center justify-center rounded-md text-ink-soft hover:bg-raised hover:text-ink">
            <EllipsisVertical size={14} />
          </button>
        }
        entries={entries}
      />
    </li>
  );
}
