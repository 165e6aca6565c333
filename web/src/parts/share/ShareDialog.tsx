import { Check, Copy, ExternalLink, Link2, Trash2 } from "lucide-react";
import { useState, type FormEvent } from "react";
import type { ShareAnswer } from "../../api/schema";
import { explain } from "../../api/http";
import { ago, bytes } from "../../state/format";
import { addressOf, closeSharing, counted, revoke, share, sharing, usualTitle } from "../../state/sharing";
import { useStore } from "../../state/store";
import { attempt } from "../../state/toasts";
import { Button, IconButton } from "../../ui/Button";
import { Dialog, Field, input } from "../../ui/Dialog";
import { Spinner } from "../../ui/states";

/** Creates a link to the current content; lists and revokes existing links. */
export function ShareDialog() {
  const isOpen = useStore(sharing, (state) => state.isOpen);
  return (
    <Dialog
      open={isOpen}
      onClose={closeSharing}
      title="Share a snapshot"
      about="The link shows the code and outputs as they are now. People who have it can read them, but cannot run anything or see the sandbox."
    >
      {isOpen && <Inside />}
    </Dialog>
  );
}

function Inside() {
  const { phase, made, all, problem } = useStore(sharing, (state) => state);
  const [title, setTitle] = useState(usualTitle);
  const [withCode, setWithCode] = useState(true);
  const [withRuns, setWithRuns] = useState(true);
  const there = counted();
  const isNothing = !(withCode && there.files > 0) && !(withRuns && there.runs > 0);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void share(title.trim() || "Untitled", withCode, withRuns);
  };
  const others = (all ?? []).filter((one) => one.id !== made?.id);
  return (
    <div className="flex min-h-0 flex-col gap-4 overflow-y-auto px-5 pt-3 pb-5">
      {made ? (
        <Made made={made} />
      ) : (
        <form onSubmit={submit} className="flex flex-col gap-3">
          <Field label="Title">
            <input className={input} value={title} maxLength={200} onChange={(event) => setTitle(event.target.value)} onFocus={(event) => event.target.select()} />
          </Field>
          <div className="flex flex-col gap-1.5">
            <Choice label={`Code: ${there.files} open ${there.files === 1 ? "file" : "files"}`} isOn={withCode} onChange={setWithCode} />
            <Choice label={`Outputs: ${there.runs} ${there.runs === 1 ? "run" : "runs"}`} isOn={withRuns} onChange={setWithRuns} />
          </div>
          {problem !== null && (
            <p role="alert" className="rounded-lg bg-danger-soft px-3 py-2 text-xs text-danger">
              {explain(problem).message} {explain(problem).hint}
            </p>
          )}
          <Button look="primary" type="submit" disabled={phase === "sharing" || isNothing} icon={phase === "sharing" ? <Spinner /> : <Link2 size={14} />} className="self-end">
            Create link
          </Button>
        </form>
      )}
      {others.length > 0 && (
        <section aria-label="Earlier links" className="border-t border-line pt-3">
          <h3 className="mb-1 text-2xs font-medium text-ink-faint">Earlier links</h3>
          <ul className="flex flex-col">
            {others.map((one) => (
              <li key={one.id} className="flex items-center gap-1 rounded-md py-0.5 pl-1 hover:bg-hover">
                <a href={one.path ?? undefined} target="_blank" rel="noreferrer" className="flex min-w-0 flex-1 items-baseline gap-2 rounded">
                  <span className="min-w-0 truncate">{one.title}</span>
                  <span className="shrink-0 text-2xs text-ink-faint">{ago(one.created * 1000)}, {bytes(one.bytes)}</span>
                </a>
                <CopyButton share={one} />
                <IconButton label={`Revoke ${one.title}`} size="small" onClick={() => attempt(() => revoke(one))}>
                  <Trash2 size={13} />
                </IconButton>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Choice({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label className="flex items-center gap-2">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.target.checked)} className="size-3.5 accent-accent" />
      {label}
    </label>
  );
}

function Made({ made }: { made: ShareAnswer }) {
  const address = addressOf(made);
  const isLocal = /^(localhost|127\.|\[::1\])/.test(location.host);
  return (
    <div className="flex flex-col gap-2.5">
      <p role="status" className="flex items-center gap-1.5 font-medium text-accent">
        <Check size={15} /> Link created
      </p>
      <div className="flex gap-1.5">
        <input readOnly aria-label="Link" value={address} className={`${input} font-mono text-xs`} onFocus={(event) => event.target.select()} />
        <CopyButton share={made} isLarge />
      </div>
      <div className="flex items-center justify-between gap-3">
        <p className="text-2xs text-ink-faint">{isLocal ? "The link opens on this machine only, unless the server’s setting “sharing” allows more." : "The server’s `sharing` setting decides who can open the link."}</p>
        <span className="flex shrink-0 gap-1.5">
          <Button size="small" look="danger" onClick={() => attempt(() => revoke(made))}>Revoke</Button>
          <Button size="small" icon={<ExternalLink size={12} />} onClick={() => void window.open(address, "_blank", "noopener")}>Open</Button>
        </span>
      </div>
    </div>
  );
}

function CopyButton({ share: one, isLarge = false }: { share: ShareAnswer; isLarge?: boolean }) {
  const [copied, setCopied] = useState(false);
  const copy = () =>
    attempt(async () => {
      await navigator.clipboard.writeText(addressOf(one));
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  const icon = copied ? <Check size={13} /> : <Copy size={13} />;
  return isLarge ? (
    <Button onClick={copy} icon={icon}>{copied ? "Copied" : "Copy"}</Button>
  ) : (
    <IconButton label={`Copy the link of ${one.title}`} size="small" onClick={copy}>{icon}</IconButton>
  );
}
