import { KeyRound } from "lucide-react";
import { useState, type FormEvent } from "react";
import { explain } from "../../api/http";
import { createKey, LIMITS, loadKeys } from "../../state/keys";
import { attempt } from "../../state/toasts";
import { Button } from "../../ui/Button";
import { Copy } from "../../ui/Copy";
import { Dialog, Field, input } from "../../ui/Dialog";
import { Spinner } from "../../ui/states";

const MEGA = 1 << 20;
const choices = [
  { scope: "run", title: "Run code", about: "and see everything that belongs to its owner" },
  { scope: "read", title: "Look only", about: "see sandboxes, runs and files, and change nothing" },
  { scope: "admin", title: "Admin", about: "everything, with keys and the audit log of all owners" },
] as const;
const labels: Record<(typeof LIMITS)[number]["unit"], string> = { count: "", seconds: ", seconds", bytes: ", MB" };

/** The form for a new key, and then its secret. */
export function NewKey({ open, owner, onClose }: { open: boolean; owner: string; onClose: () => void }) {
  const [made, setMade] = useState<{ name: string; secret: string } | null>(null);
  const close = () => {
    setMade(null);
    onClose();
  };
  return (
    <Dialog open={open} onClose={close} title={made ? "The key was created" : "Create a key"} {...(made ? {} : { about: "One for each person or program, so that you can revoke it alone." })}>
      {open && (made ? <Secret name={made.name} secret={made.secret} onDone={close} /> : <Form owner={owner} onClose={close} onMade={setMade} />)}
    </Dialog>
  );
}

function Form({ owner: usual, onClose, onMade }: { owner: string; onClose: () => void; onMade: (made: { name: string; secret: string }) => void }) {
  const [name, setName] = useState("");
  const [owner, setOwner] = useState(usual);
  const [scope, setScope] = useState<string>("run");
  const [limits, setLimits] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    const given = LIMITS.filter((limit) => (limits[limit.name] ?? "").trim() !== "");
    const values = Object.fromEntries(given.map(({ name: limit, unit }) => [limit, Number(limits[limit]) * (unit === "bytes" ? MEGA : 1)]));
    try {
      const secret = await createKey({ name: name.trim(), owner: owner.trim(), scopes: [scope], limits: values });
      onMade({ name: name.trim(), secret });
      attempt(loadKeys);
    } catch (failure) {
      setProblem(failure);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} className="flex min-h-0 flex-col gap-4 overflow-y-auto px-5 pt-3 pb-5">
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Name" note="What it is for: laptop, Cursor, nightly job">
          <input autoFocus className={input} value={name} maxLength={100} onChange={(event) => setName(event.target.value)} />
        </Field>
        <Field label="Owner" note="Keys of one owner share sandboxes and files">
          <input className={input} value={owner} maxLength={64} spellCheck={false} onChange={(event) => setOwner(event.target.value)} />
        </Field>
      </div>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 text-xs font-medium text-ink-soft">It may</legend>
        {choices.map((choice) => (
          <label key={choice.scope} className="flex items-baseline gap-2">
            <input type="radio" name="scope" value={choice.scope} checked={scope === choice.scope} onChange={() => setScope(choice.scope)} className="size-3.5 translate-y-0.5 accent-accent" />
            <span>
              {choice.title} <span className="text-xs text-ink-soft">{choice.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <details>
        <summary className="cursor-pointer rounded text-xs font-medium text-ink-soft hover:text-ink">Limits (none unless you set one)</summary>
        <div className="mt-2 grid gap-3 sm:grid-cols-2">
          {LIMITS.map(({ name: limit, title, unit }) => (
            <Field key={limit} label={title + labels[unit]}>
              <input
                type="number"
                min={0}
                step="any"
                inputMode="decimal"
                className={input}
                value={limits[limit] ?? ""}
                onChange={(event) => setLimits({ ...limits, [limit]: event.target.value })}
              />
            </Field>
          ))}
        </div>
      </details>
      {problem !== null && (
        <p role="alert" className="rounded-lg bg-danger-soft px-3 py-2 text-xs text-danger">
          {explain(problem).message} {explain(problem).hint}
        </p>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" type="submit" disabled={busy || !name.trim() || !owner.trim()} icon={busy ? <Spinner /> : <KeyRound size={14} />}>Create key</Button>
      </div>
    </form>
  );
}

function Secret({ name, secret, onDone }: { name: string; secret: string; onDone: () => void }) {
  return (
    <div className="flex flex-col gap-3 px-5 pt-2 pb-5">
      <p className="text-ink-soft">This is the only time that the key “{name}” is shown: the server keeps a digest of it, and nobody can look it up. Copy it now.</p>
      <div className="flex gap-1.5">
        <input readOnly aria-label="Key" value={secret} className={`${input} font-mono text-xs`} onFocus={(event) => event.target.select()} />
        <Copy text={secret} what="the key" size="normal" />
      </div>
      <Button look="primary" className="self-end" onClick={onDone}>Done</Button>
    </div>
  );
}
