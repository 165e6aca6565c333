import { Check, Copy as Sheets } from "lucide-react";
import { useEffect, useState } from "react";
import { attempt } from "../state/toasts";
import { Button } from "./Button";

const SHOWN_MS = 1500;

/** A button that copies a text and says so. `what` completes its accessible name: "Copy the key". */
export function Copy({ text, what, size = "small" }: { text: string; what: string; size?: "small" | "normal" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () =>
    attempt(async () => {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    });
  return (
    <>
      <Button size={size} aria-label={`${copied ? "Copied" : "Copy"} ${what}`} onClick={copy} icon={copied ? <Check size={13} /> : <Sheets size={13} />}>
        {copied ? "Copied" : "Copy"}
      </Button>
      <span role="status" className="sr-only">{copied ? `Copied ${what}` : ""}</span>
    </>
  );
}

/** Text to be copied: `text` is copied, and `shown` is what is seen of it. */
export function CopyBlock({ text, shown = text, what }: { text: string; shown?: string; what: string }) {
  return (
    <div className="relative">
      <pre tabIndex={0} aria-label={what} className="overflow-x-auto rounded-lg border border-line bg-sunken py-2.5 pr-24 pl-3 font-mono text-xs leading-5 break-words whitespace-pre-wrap">{shown}</pre>
      <span className="absolute top-1.5 right-1.5">
        <Copy text={text} what={what} />
      </span>
    </div>
  );
}
