import { ArrowLeft, Moon, Plus, Sun } from "lucide-react";
import { useEffect, useState } from "react";
import type { CurrentKeyAnswer, KeyAnswer } from "../../api/schema";
import { app, isDark, setTheme } from "../../state/app";
import { isAdmin, keys, loadKeys, revokeKey } from "../../state/keys";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Wordmark } from "../../ui/Bell";
import { Button, IconButton } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import { Failed, Loading } from "../../ui/states";
import { KeyTable, Scopes } from "./KeyTable";
import { NewKey } from "./NewKey";
import { Quota } from "./Quota";
import { Usage } from "./Usage";

/** Keys, what they may do, and what they have used. */
export default function KeysPage() {
  const { phase, problem, current } = useStore(keys, (state) => state);
  useStore(app, (state) => state.dark);
  useEffect(() => {
    void loadKeys();
    document.title = "Keys and usage · Cloche";
    return () => void (document.title = "Cloche");
  }, []);
  return (
    <div className="h-full overflow-y-auto">
      <header className="mx-auto flex h-14 max-w-5xl items-center justify-between px-5">
        <a href="#" aria-label="Cloche: start page" className="rounded-md">
          <Wordmark />
        </a>
        <IconButton label={isDark() ? "Light theme" : "Dark theme"} onClick={() => setTheme(isDark() ? "light" : "dark")}>
          {isDark() ? <Sun size={15} /> : <Moon size={15} />}
        </IconButton>
      </header>
      <main className="mx-auto flex max-w-5xl flex-col gap-8 px-5 pt-4 pb-16">
        <div>
          <a href="#" className="mb-2 inline-flex items-center gap-1 rounded text-xs text-ink-soft hover:text-ink">
            <ArrowLeft size={13} aria-hidden="true" /> Start page
          </a>
          <h1 className="font-display text-4xl leading-none tracking-tight">Keys and usage</h1>
        </div>
        {phase === "none" ? (
          <Loading label="Loading keys and usage" />
        ) : phase === "failed" || current === null ? (
          <Failed problem={problem} retry={() => void loadKeys()} />
        ) : (
          <Inside current={current} />
        )}
      </main>
    </div>
  );
}

function Inside({ current }: { current: CurrentKeyAnswer }) {
  const all = useStore(keys, (state) => state.all);
  const [creating, setCreating] = useState(false);
  const [ending, setEnding] = useState<KeyAnswer | null>(null);
  const mine = ending?.id === current.id;
  return (
    <>
      <YourKey current={current} />
      {all && (
        <section aria-label="All keys">
          <div className="mb-2.5 flex items-center justify-between gap-3">
            <h2 className="text-xs font-semibold text-ink-soft">All keys</h2>
            <Button look="primary" icon={<Plus size={14} />} onClick={() => setCreating(true)}>Create a key</Button>
          </div>
          <KeyTable all={all} currentId={current.id} onRevoke={setEnding} />
        </section>
      )}
      <Usage />
      <NewKey open={creating} owner={current.owner} onClose={() => setCreating(false)} />
      <Confirm
        open={ending !== null}
        title={`Revoke ${ending?.name ?? ""}?`}
        about={`It stops working at once, and everything that it has open ends. This cannot be undone.${mine ? " It is the key of this browser: you will be signed out." : ""}`}
        action="Revoke key"
        onClose={() => setEnding(null)}
        onConfirm={() => ending && attempt(() => revokeKey(ending.id))}
      />
    </>
  );
}

function YourKey({ current }: { current: CurrentKeyAnswer }) {
  return (
    <section aria-label="Your key">
      <h2 className="mb-2.5 text-xs font-semibold text-ink-soft">Your key</h2>
      <div className="pane flex flex-col gap-3 p-4">
        {current.id === "no-auth" ? (
          <p>This server requires no key: whoever reaches it may do everything.</p>
        ) : (
          <p className="flex flex-wrap items-baseline gap-x-3 gap-y-1">
            <span className="font-medium break-words">{current.name}</span>
            <span className="text-ink-soft">of {current.owner}</span>
            <Scopes scopes={current.scopes} />
          </p>
        )}
        {!isAdmin(current) && <p className="text-xs text-ink-soft">You see the usage of {current.owner} only. To list, create or revoke keys, sign in with an admin’s key.</p>}
        <Quota current={current} />
      </div>
    </section>
  );
}
