import { Maximize, Minus, Plus } from "lucide-react";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { bytes } from "../../../state/format";
import { nameOf } from "../../../state/tree";
import { IconButton } from "../../../ui/Button";
import { Failed, Loading } from "../../../ui/states";
import { Unshown } from "./Unshown";
import { useBytes } from "./useBytes";

const MOST_BYTES = 50 << 20;
const STEPS = [0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 16];
const TYPES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  avif: "image/avif",
  bmp: "image/bmp",
  ico: "image/x-icon",
  svg: "image/svg+xml",
};

/** A picture on a checkerboard, which shows where it is transparent. As an image, SVG runs and loads nothing. */
export default function PictureFile({ path }: { path: string }) {
  const contents = useBytes(path, MOST_BYTES);
  const data = contents.phase === "ready" ? contents.data : null;
  const address = useMemo(() => {
    const type = TYPES[path.split(".").pop()?.toLowerCase() ?? ""] ?? "";
    return data ? URL.createObjectURL(new Blob([data], { type })) : "";
  }, [data, path]);
  useEffect(() => () => URL.revokeObjectURL(address), [address]);
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);
  const [isBroken, setBroken] = useState(false);
  /** The scale; null: as large as there is room for, but not larger than it is. */
  const [scale, setScale] = useState<number | null>(null);
  const picture = useRef<HTMLImageElement>(null);
  useEffect(() => setBroken(false), [address]);

  if (contents.phase === "loading") return <Loading label={`Opening ${nameOf(path)}`} />;
  if (contents.phase === "failed") return <Failed problem={contents.problem} retry={contents.again} />;
  if (isBroken) return <Unshown path={path} why="The browser cannot show this picture: it is damaged, or of another kind than its name says." />;

  const shown = scale ?? (size && picture.current ? picture.current.clientWidth / Math.max(1, size.width) : 1);
  const zoom = (direction: 1 | -1) => {
    const next = direction === 1 ? STEPS.find((step) => step > shown + 0.001) : STEPS.findLast((step) => step < shown - 0.001);
    if (next !== undefined) setScale(next);
  };
  const onKey = (event: KeyboardEvent) => {
    const act = { "+": () => zoom(1), "=": () => zoom(1), "-": () => zoom(-1), "0": () => setScale(null), "1": () => setScale(1) }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  };
  return (
    <div className="flex h-full flex-col">
      <div
        tabIndex={0}
        role="region"
        aria-label={`Picture ${nameOf(path)}`}
        onKeyDown={onKey}
        className="min-h-0 flex-1 overflow-auto outline-offset-[-2px]"
      >
        <div className="flex h-full min-h-fit w-full min-w-fit items-center justify-center p-4">
          <img
            ref={picture}
            src={address}
            alt={nameOf(path)}
            onLoad={({ currentTarget }) => setSize({ width: currentTarget.naturalWidth, height: currentTarget.naturalHeight })}
            onError={() => setBroken(true)}
            style={scale === null || !size ? {} : { width: size.width * scale, height: size.height * scale }}
            className={`checkerboard rounded-sm border border-line ${scale === null ? "max-h-full max-w-full" : "max-w-none shrink-0"} ${shown > 2 ? "[image-rendering:pixelated]" : ""}`}
          />
        </div>
      </div>
      <div className="flex shrink-0 items-center gap-1 border-t border-line bg-sunken py-0.5 pr-1 pl-2.5 text-2xs text-ink-soft">
        <span role="status" className="min-w-0 flex-1 truncate tabular-nums">
          {size && size.width > 0 ? `${size.width} × ${size.height} pixels · ` : ""}
          {bytes(contents.data.size)}
        </span>
        <IconButton label="Smaller" keys="-" size="small" onClick={() => zoom(-1)}>
          <Minus size={13} />
        </IconButton>
        <button type="button" onClick={() => setScale(1)} title="Show the real size (1)" className="h-6 w-12 rounded-md text-center tabular-nums hover:bg-hover">
          {scale === null ? "fitted" : `${Math.round(scale * 100)} %`}
        </button>
        <IconButton label="Larger" keys="+" size="small" onClick={() => zoom(1)}>
          <Plus size={13} />
        </IconButton>
        <IconButton label="Fit into the room" keys="0" size="small" pressed={scale === null} onClick={() => setScale(null)}>
          <Maximize size={13} />
        </IconButton>
      </div>
    </div>
  );
}
