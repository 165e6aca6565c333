import { CornerDownLeft } from "lucide-react";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { write, type Run } from "../../state/runs";
import { attempt } from "../../state/toasts";

const PAUSE_MS = 1000;
let lastTyped = 0;
addEventListener(
  "keydown",
  (event) => {
    // Somebody who types at this moment would answer the program without noticing.
    if (!event.ctrlKey && !event.metaKey && !event.altKey) lastTyped = Date.now();
  },
  true,
);

/** Where a person answers a program: there when it reads its input, or on request, should the server not notice. */
export function RunInput({ run }: { run: Run }) {
  const [isWanted, setWanted] = useState(false);
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLong(true), PAUSE_MS);
    return () => clearTimeout(timer);
  }, []);
  if (run.waiting || isWanted) return <Line run={run} isSecret={run.waiting && run.asksForSecret} onDone={() => setWanted(false)} />;
  if (!isLong) return null;
  return (
    <p className="px-3 pb-1">
      <button type="button" className="text-2xs text-ink-faint hover:text-ink hover:underline" onClick={() => setWanted(true)}>
        Send input
      </button>
    </p>
  );
}

function Line({ run, isSecret, onDone }: { run: Run; isSecret: boolean; onDone: () => void }) {
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    let timer = 0;
    const take = () => {
      const left = lastTyped + PAUSE_MS - Date.now();
      if (left > 0) timer = window.setTimeout(take, left);
      else field.current?.focus();
    };
    take();
    return () => clearTimeout(timer);
  }, []);
  const send = (data: string, shown: string, isEnd = false) => {
    attempt(() => write(run, data, isEnd));
    if (shown) run.take({ kind: "stdout", text: shown });
    run.take({ kind: "waiting", waiting: false });
    setText("");
    onDone();
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send(`${text}\n`, `${isSecret ? "••••" : text}\n`);
  };
  return (
    <form onSubmit={submit} className="mx-2 my-1.5 flex items-center gap-1.5 rounded-lg border border-line-strong/60 bg-sunken pr-1 pl-2.5 focus-within:border-accent">
      <CornerDownLeft size={13} className="text-ink-faint" aria-hidden="true" />
      <input
        ref={field}
        type={isSecret ? "password" : "text"}
        value={text}
        onChange={(event) => setText(event.target.value)}
        aria-label="Input for the program"
        placeholder={isSecret ? "Not shown in the output" : "Input for the program"}
        spellCheck={false}
        autoComplete="off"
        className="h-7 min-w-0 flex-1 bg-transparent font-mono text-xs outline-none placeholder:text-ink-faint"
      />
      <button type="button" className="px-1.5 text-2xs text-ink-soft hover:text-ink" onClick={() => send("", "", true)}>
        End of input
      </button>
    </form>
  );
}
