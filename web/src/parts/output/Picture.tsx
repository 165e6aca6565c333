import { Download, Maximize2, Minus, Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { Dialog } from "../../ui/Dialog";
import { IconButton } from "../../ui/Button";

interface Props {
  /** A `data:` or `blob:` address. */
  source: string;
  name: string;
  alt: string;
}

const STEPS = [0.25, 0.5, 1, 1.5, 2, 3, 4, 6];

/** A picture: click to zoom, a button to save. */
export function Picture({ source, name, alt }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <figure className="group relative px-3 py-2">
      <button type="button" onClick={() => setOpen(true)} className="block cursor-zoom-in rounded-md bg-white" aria-label={`Zoom: ${alt}`}>
        <img src={source} alt={alt} className="max-h-[28rem] max-w-full rounded-md" />
      </button>
      <div className="absolute top-3 right-4 flex gap-0.5 rounded-md border border-line bg-raised/90 p-0.5 opacity-0 shadow-sm transition-opacity group-focus-within:opacity-100 group-hover:opacity-100 max-md:opacity-100">
        <IconButton label="Zoom" size="small" onClick={() => setOpen(true)}>
          <Maximize2 size={13} />
        </IconButton>
        <Save source={source} name={name} />
      </div>
      <Dialog open={open} onClose={() => setOpen(false)} title={alt} wide>
        {open && <Zoomed source={source} name={name} alt={alt} />}
      </Dialog>
    </figure>
  );
}

function Save({ source, name }: { source: string; name: string }) {
  return (
    <a
      href={source}
      download={name}
      aria-label={`Save ${name}`}
      title={`Save ${name}`}
      className="inline-flex size-6 items-center justify-center rounded-md text-ink-soft hover:bg-hover hover:text-ink"
    >
      <Download size={13} />
    </a>
  );
}

function Zoomed({ source, name, alt }: Props) {
  const [step, setStep] = useState(2);
  const scale = STEPS[step] ?? 1;
  return (
    <>
      <div className="flex items-center gap-1 px-4 pb-2 text-xs text-ink-soft">
        <IconButton label="Smaller" size="small" disabled={step === 0} onClick={() => setStep(step - 1)}>
          <Minus size={14} />
        </IconButton>
        <span className="w-11 text-center tabular-nums" role="status">{Math.round(scale * 100)} %</span>
        <IconButton label="Larger" size="small" disabled={step === STEPS.length - 1} onClick={() => setStep(step + 1)}>
          <Plus size={14} />
        </IconButton>
        <Save source={source} name={name} />
      </div>
      <div className="overflow-auto rounded-b-xl border-t border-line bg-white p-3">
        <img src={source} alt={alt} style={{ zoom: scale }} className="max-w-none" />
      </div>
    </>
  );
}

/** A `blob:` or `data:` address for base64 or text, which the page can show without a request. */
export function useBlob(data: string, mime: string, isBase64: boolean): string {
  return useMemo(() => {
    if (isBase64) return `data:${mime};base64,${data.replace(/\s/g, "")}`;
    return `data:${mime};charset=utf-8,${encodeURIComponent(data)}`;
  }, [data, mime, isBase64]);
}
