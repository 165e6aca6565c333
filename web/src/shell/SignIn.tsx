import { useState, type FormEvent } from "react";
import { isKey } from "../api/cloche";
import { Bell } from "../ui/Bell";
import { Button } from "../ui/Button";
import { Field, input } from "../ui/Dialog";

/** Sign-in for people who did not use the printed address, or whose cookie has expired. */
export function SignIn() {
  const [key, setKey] = useState("");
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      if (await isKey(key.trim())) {
        // As with the printed address: the server answers with a cookie, and the key disappears from the address.
        location.assign(`/?key=${encodeURIComponent(key.trim())}${location.hash}`);
        return;
      }
      setWrong("The server does not know this key.");
    } catch {
      setWrong("The server cannot be reached.");
    }
    setBusy(false);
  };
  return (
    <main className="flex h-full items-center justify-center overflow-y-auto p-4">
      <div className="w-full max-w-sm">
        <div className="mb-6 flex flex-col items-center gap-3 text-center">
          <span className="text-accent">
            <Bell size={44} />
          </span>
          <h1 className="font-display text-4xl leading-none">Cloche</h1>
          <p className="text-ink-soft">Open the address that <code className="font-mono text-xs">cloche serve</code> printed, or paste the key.</p>
        </div>
        <form onSubmit={(event) => void submit(event)} className="pane flex flex-col gap-4 p-5">
          <Field label="Key" wrong={wrong} note="`cloche key` prints it.">
            <input
              autoFocus
              type="password"
              autoComplete="current-password"
              className={input}
              value={key}
              onChange={(event) => {
                setKey(event.target.value);
                setWrong("");
              }}
            />
          </Field>
          <Button look="primary" type="submit" size="large" disabled={busy || !key.trim()}>
            Sign in
          </Button>
        </form>
        <p className="mt-4 text-center text-xs text-ink-faint">You stay signed in for 30 days, with a cookie that scripts cannot read.</p>
      </div>
    </main>
  );
}
