import { useEffect, useState, type FormEvent } from "react";
import { isKey, version } from "../api/cloche";
import { ApiProblem } from "../api/http";
import { takeRefusal } from "../state/app";
import { Bell } from "../ui/Bell";
import { Button } from "../ui/Button";
import { Field, input } from "../ui/Dialog";
import { Spinner } from "../ui/states";

const UNKNOWN = "The server does not know this key. It may be mistyped or revoked, or belong to another server.";

/** Sign-in for people who did not use the printed address, whose key is wrong, or whose cookie has expired. */
export function SignIn() {
  const [key, setKey] = useState("");
  const [wrong, setWrong] = useState("");
  const [ended, setEnded] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (takeRefusal()) setWrong(UNKNOWN);
    // The cookie is hidden from scripts: only the server can say whether there is an old one.
    version().catch((problem: unknown) => {
      if (problem instanceof ApiProblem && problem.details.sent === "cookie") setEnded(problem.message);
    });
  }, []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      if (await isKey(key.trim())) {
        // As with the printed address: the server answers with a cookie, and the key disappears from the address.
        location.assign(`/?key=${encodeURIComponent(key.trim())}${location.hash}`);
        return;
      }
      setWrong(UNKNOWN);
    } catch {
      setWrong("The server cannot be reached. Check that it runs, and try again.");
    }
    setBusy(false);
  };
  return (
    <main className="flex h-full overflow-y-auto p-4">
      <div className="m-auto w-full max-w-sm">
        <div className="mb-6 flex flex-col items-center gap-3 text-center">
          <span className="text-accent">
            <Bell size={44} />
          </span>
          <h1 className="font-display text-4xl leading-none">Cloche</h1>
          <p className="text-balance text-ink-soft">This server runs code under glass, for you and for your AI. It needs a key.</p>
        </div>
        {ended && !wrong && (
          <p role="status" className="mb-3 rounded-lg bg-warn-soft px-3.5 py-2.5 text-warn">
            {ended}
          </p>
        )}
        <form onSubmit={(event) => void submit(event)} className="pane flex flex-col gap-4 p-5">
          <Field label="Key" wrong={wrong}>
            <input
              autoFocus
              type="password"
              autoComplete="current-password"
              className={`${input} max-md:h-10 max-md:text-base`}
              value={key}
              onChange={(event) => {
                setKey(event.target.value);
                setWrong("");
              }}
            />
          </Field>
          <Button look="primary" type="submit" size="large" disabled={busy || !key.trim()} icon={busy ? <Spinner /> : undefined}>
            Sign in
          </Button>
        </form>
        <section className="mt-5 px-1 text-xs text-ink-soft">
          <h2 className="mb-1 font-semibold">Where is the key?</h2>
          <ul className="flex list-disc flex-col gap-1 pl-4">
            <li>
              <code className="font-mono">cloche serve</code> prints an address that contains it: open that address.
            </li>
            <li>
              <code className="font-mono">cloche key</code> prints it on the server’s machine.
            </li>
            <li>If the server is somebody else’s, ask them for a key of your own.</li>
          </ul>
        </section>
        <p className="mt-4 px-1 text-xs text-ink-faint">
          You stay signed in for 30 days, with a cookie that scripts cannot read. <a href="/docs" className="underline underline-offset-2 hover:text-ink">API reference</a>
        </p>
      </div>
    </main>
  );
}
