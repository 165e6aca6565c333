import { Minus, Plus } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { bytes } from "../../../state/format";
import { nameOf } from "../../../state/tree";
import { IconButton } from "../../../ui/Button";
import { classes } from "../../../ui/classes";
import { Failed, Loading } from "../../../ui/states";
import { pdfDocument } from "./pdfDocument";
import { Unshown } from "./Unshown";
import { useBytes } from "./useBytes";

const MOST_BYTES = 50 << 20;
const STEPS = [0.5, 0.75, 1, 1.25, 1.5, 2, 3];
const problems: Record<string, string> = {
  password: "This PDF is protected by a password.",
  damaged: "This PDF is damaged, or is none.",
};

/** A PDF, drawn by pdf.js in the frame for foreign HTML: a flaw in its parser would reach neither the page nor a network. */
export default function PdfFile({ path }: { path: string }) {
  const contents = useBytes(path, MOST_BYTES);
  const data = contents.phase === "ready" ? contents.data : null;
  const frame = useRef<HTMLIFrameElement>(null);
  const [pages, setPages] = useState(0);
  const [problem, setProblem] = useState("");
  const [step, setStep] = useState(STEPS.indexOf(1));

  useEffect(() => {
    if (!data) return;
    setPages(0);
    setProblem("");
    setStep(STEPS.indexOf(1));
    const listener = (event: MessageEvent<{ ready?: unknown; waits?: unknown; pages?: unknown; problem?: unknown }>) => {
      const inside = frame.current?.contentWindow;
      if (!inside || event.source !== inside) return;
      const { ready, waits, pages: count, problem: why } = event.data;
      if (ready) inside.postMessage({ html: pdfDocument(nameOf(path)) }, "*");
      else if (waits) void send(inside, data).catch(() => setProblem("damaged"));
      else if (typeof count === "number") setPages(count);
      else if (typeof why === "string") setProblem(why);
    };
    window.addEventListener("message", listener);
    return () => window.removeEventListener("message", listener);
  }, [data, path]);

  if (contents.phase === "loading") return <Loading label={`Opening ${nameOf(path)}`} />;
  if (contents.phase === "failed") return <Failed problem={contents.problem} retry={contents.again} />;
  if (problem) return <Unshown path={path} why={problems[problem] ?? problems["damaged"] ?? ""} />;
  const zoom = (next: number) => {
    setStep(next);
    frame.current?.contentWindow?.postMessage({ scale: STEPS[next] }, "*");
  };
  return (
    <div className="flex h-full flex-col">
      <div className="relative min-h-0 flex-1 bg-sunken">
        {pages === 0 && <Loading label={`Opening ${nameOf(path)}`} />}
        <iframe
          key={`${path} ${String(contents.version)}`}
          ref={frame}
          title={nameOf(path)}
          src="/assets/frame.html"
          sandbox="allow-scripts"
          className={classes("absolute inset-0 h-full w-full border-0", pages === 0 && "invisible")}
        />
      </div>
      <div className="flex shrink-0 items-center gap-1 border-t border-line bg-sunken py-0.5 pr-1 pl-2.5 text-2xs text-ink-soft">
        <span role="status" className="min-w-0 flex-1 truncate tabular-nums">
          {pages > 0 && `${pages.toLocaleString("en")} ${pages === 1 ? "page" : "pages"} · `}
          {bytes(contents.data.size)}
        </span>
        <IconButton label="Smaller" size="small" disabled={step === 0 || pages === 0} onClick={() => zoom(step - 1)}>
          <Minus size={13} />
        </IconButton>
        <span className="w-11 text-center tabular-nums">{Math.round((STEPS[step] ?? 1) * 100)} %</span>
        <IconButton label="Larger" size="small" disabled={step === STEPS.length - 1 || pages === 0} onClick={() => zoom(step + 1)}>
          <Plus size={13} />
        </IconButton>
      </div>
    </div>
  );
}

/** Sends pdf.js and the file to the frame, which can load nothing itself. */
async function send(frame: Window, file: Blob): Promise<void> {
  const [library, worker, data] = await Promise.all([
    import("pdfjs-dist/build/pdf.min.mjs?raw"),
    import("pdfjs-dist/build/pdf.worker.min.mjs?raw"),
    file.arrayBuffer(),
  ]);
  frame.postMessage({ library: library.default, worker: worker.default, data }, "*", [data]);
}
