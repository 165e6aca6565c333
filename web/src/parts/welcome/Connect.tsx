import { Eye, EyeOff, KeyRound } from "lucide-react";
import { Tabs } from "radix-ui";
import { useEffect, useState } from "react";
import { connect, createFor, forE2b, hidden, PLACEHOLDER, platformOf, waysOf, type Way } from "../../state/connect";
import { isAdmin, keys, loadCurrent } from "../../state/keys";
import { useStore } from "../../state/store";
import { complain } from "../../state/toasts";
import { Button } from "../../ui/Button";
import { CopyBlock } from "../../ui/Copy";
import { input } from "../../ui/Dialog";
import { Spinner } from "../../ui/states";

const ways = waysOf(platformOf(navigator.userAgent));
const groups = ["AI clients", "Programs"] as const;

/** What to write where, so that an AI client or a program uses this server. */
export function Connect() {
  const [chosen, setChosen] = useState(ways[0]?.id ?? "");
  useEffect(() => {
    loadCurrent().catch(() => undefined); // without it, the panel offers no new key
  }, []);
  return (
    <section aria-label="Connect your AI">
      <h2 className="mb-2.5 text-xs font-semibold text-ink-soft">Connect your AI</h2>
      <Tabs.Root value={chosen} onValueChange={setChosen} orientation="vertical" className="pane grid md:grid-cols-[11rem_minmax(0,1fr)]">
        <Tabs.List
          aria-label="What to connect"
          className="flex gap-x-1 gap-y-0.5 overflow-x-auto border-line p-2 max-md:border-b md:flex-col md:border-r md:bg-sunken/60"
        >
          {groups.map((group) => (
            <div key={group} role="presentation" className="flex gap-x-1 gap-y-0.5 md:flex-col">
              <span aria-hidden="true" className="px-2.5 pt-1 pb-0.5 text-2xs font-medium text-ink-faint max-md:hidden">{group}</span>
              {ways
                .filter((way) => way.group === group)
                .map((way) => (
                  <Tabs.Trigger
                    key={way.id}
                    value={way.id}
                    className="rounded-md px-2.5 py-1 text-left whitespace-nowrap text-ink-soft transition-colors hover:bg-hover hover:text-ink data-[state=active]:bg-accent-soft data-[state=active]:font-medium data-[state=active]:text-accent max-md:py-1.5"
                  >
                    {way.title}
                  </Tabs.Trigger>
                ))}
            </div>
          ))}
        </Tabs.List>
        {ways.map((way) => (
          <Tabs.Content key={way.id} value={way.id} className="min-w-0 p-4 outline-offset-[-2px]">
            <Steps way={way} />
          </Tabs.Content>
        ))}
      </Tabs.Root>
    </section>
  );
}

function Steps({ way }: { way: Way }) {
  const secret = useStore(connect, (state) => state.secrets[way.id] ?? "");
  const [seen, setSeen] = useState(false);
  const key = secret || PLACEHOLDER;
  const shown = secret && !seen ? hidden(way.id === "e2b" ? forE2b(secret) : secret) : key;
  return (
    <div className="flex flex-col gap-3">
      {way.steps.map((step, index) => (
        <div key={step.where} className="flex flex-col gap-1.5">
          <p className="text-ink-soft">{index > 0 ? `Or: ${step.where.charAt(0).toLowerCase()}${step.where.slice(1)}` : step.where}</p>
          <CopyBlock text={step.text(location.origin, key)} shown={step.text(location.origin, shown)} what={`for ${way.title}${index > 0 ? ", the other way" : ""}`} />
        </div>
      ))}
      <KeyLine way={way} secret={secret} seen={seen} onSeen={setSeen} />
    </div>
  );
}

function KeyLine({ way, secret, seen, onSeen }: { way: Way; secret: string; seen: boolean; onSeen: (seen: boolean) => void }) {
  const current = useStore(keys, (state) => state.current);
  const [busy, setBusy] = useState(false);
  if (current === null) return null;
  if (secret) {
    return (
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-lg bg-accent-soft/60 px-3 py-2">
        <p role="status" className="min-w-0 flex-1 basis-60 text-xs text-ink-soft">
          {isAdmin(current)
            ? `The text contains a new key, “${way.title}”, which may run code. Copy it now: nobody can see the key again after you close this page.`
            : "The text contains your key. This page forgets it when you close it."}
        </p>
        <Button size="small" aria-pressed={seen} onClick={() => onSeen(!seen)} icon={seen ? <EyeOff size={13} /> : <Eye size={13} />}>
          {seen ? "Hide the key" : "Show the key"}
        </Button>
      </div>
    );
  }
  if (current.id === "no-auth") return <p className="text-xs text-ink-faint">This server requires no key: leave {PLACEHOLDER} as it is.</p>;
  if (!isAdmin(current)) return <OwnKey way={way} />;
  const create = async () => {
    setBusy(true);
    await createFor(way).catch(complain);
    setBusy(false);
  };
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
      <p className="min-w-0 flex-1 basis-60 text-xs text-ink-soft">
        {PLACEHOLDER} stands for a key. Give each client one of its own, so that you can revoke it alone. <a href="#/keys" className="underline underline-offset-2 hover:text-ink">All keys</a>
      </p>
      <Button disabled={busy} onClick={() => void create()} icon={busy ? <Spinner /> : <KeyRound size={14} />}>
        Create a key for {way.title}
      </Button>
    </div>
  );
}

/** For those who may not create keys: their own key, put into the text in this page only. */
function OwnKey({ way }: { way: Way }) {
  const [own, setOwn] = useState("");
  return (
    <form
      className="flex flex-wrap items-center gap-x-3 gap-y-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (own.trim()) connect.set(({ secrets }) => ({ secrets: { ...secrets, [way.id]: own.trim() } }));
      }}
    >
      <p className="min-w-0 flex-1 basis-60 text-xs text-ink-soft">{PLACEHOLDER} stands for a key. Only an admin’s key can create new ones, so use yours.</p>
      <input type="password" autoComplete="off" aria-label="Your key" placeholder="Your key" value={own} onChange={(event) => setOwn(event.target.value)} className={`${input} max-w-48`} />
      <Button type="submit" disabled={!own.trim()}>Put it in</Button>
    </form>
  );
}
