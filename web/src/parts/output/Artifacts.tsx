import { Download, Eye, FileText } from "lucide-react";
import { useEffect, useState } from "react";
import * as api from "../../api/cloche";
import type { ArtifactAnswer } from "../../api/schema";
import { openFile } from "../../state/documents";
import { bytes } from "../../state/format";
import { plain } from "../../state/names";
import { sandbox, theSandbox } from "../../state/sandbox";
import { useStore } from "../../state/store";
import { shown } from "../../state/tree";
import { Dialog } from "../../ui/Dialog";
import { IconButton } from "../../ui/Button";
import { Failed, Loading } from "../../ui/states";
import { Frame } from "./Frame";
import { Picture } from "./Picture";

/** Files that a run created, with previews where possible. */
export function Artifacts({ artifacts }: { artifacts: ArtifactAnswer[] }) {
  const [open, setOpen] = useState<ArtifactAnswer | null>(null);
  const isAlive = useStore(sandbox, (state) => state.phase === "open");
  return (
    <div className="flex flex-wrap gap-1.5 px-3 pt-1 pb-2">
      {artifacts.map((artifact) => (
        <div key={artifact.path} className="flex max-w-full items-center gap-1.5 rounded-lg border border-line bg-sunken py-0.5 pr-0.5 pl-2 text-xs">
          <FileText size={13} className="shrink-0 text-ink-faint" aria-hidden="true" />
          <span className="truncate">{shown(artifact.path)}</span>
          <span className="text-2xs whitespace-nowrap text-ink-faint">{bytes(artifact.size)}</span>
          {isAlive && (
            <>
              <IconButton label={`Preview ${shown(artifact.path)}`} size="small" onClick={() => setOpen(artifact)}>
                <Eye size={13} />
              </IconButton>
              <a
                href={api.fileAddress(theSandbox(), artifact.path)}
                download={plain(artifact.path.split("/").pop() ?? "")}
                aria-label={`Download ${shown(artifact.path)}`}
                title="Download"
                className="inline-flex size-6 items-center justify-center rounded-md text-ink-soft hover:bg-hover hover:text-ink"
              >
                <Download size={13} />
              </a>
            </>
          )}
        </div>
      ))}
      <Dialog open={open !== null} onClose={() => setOpen(null)} title={open ? shown(open.path) : ""} wide>
        {open && <Preview path={open.path} mime={open.mime} onEdit={() => setOpen(null)} />}
      </Dialog>
    </div>
  );
}

type Loaded = { address: string } | { text: string };

/** A file's contents, as a picture, sound, page or text. */
export function Preview({ path, mime, onEdit }: { path: string; mime: string; onEdit: () => void }) {
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const isText = /^text\/|json|javascript|csv|xml$/.test(mime) && !mime.startsWith("image/");
  useEffect(() => {
    let address = "";
    let isGone = false;
    void (async () => {
      try {
        const response = await api.readFile(theSandbox(), path);
        if (isText) {
          const text = await response.text();
          if (!isGone) setLoaded({ text });
        } else {
          address = URL.createObjectURL(new Blob([await response.arrayBuffer()], { type: mime }));
          if (!isGone) setLoaded({ address });
        }
      } catch (failure) {
        if (!isGone) setProblem(failure);
      }
    })();
    return () => {
      isGone = true;
      if (address) URL.revokeObjectURL(address);
    };
  }, [path, mime, isText]);
  if (problem) return <Failed problem={problem} />;
  if (!loaded) return <div className="h-32"><Loading label="Loading" /></div>;
  const name = path.split("/").pop() ?? path;
  return (
    <div className="min-h-0 overflow-auto pb-3">
      {"address" in loaded ? (
        mime.startsWith("image/") ? (
          <Picture source={loaded.address} name={name} alt={name} />
        ) : mime.startsWith("audio/") ? (
          <audio controls src={loaded.address} className="m-4" />
        ) : mime.startsWith("video/") ? (
          <video controls src={loaded.address} className="m-4 max-w-full" />
        ) : (
          <p className="px-5 py-6 text-ink-soft">This kind of file ({mime}) cannot be shown here. Download it instead.</p>
        )
      ) : mime === "text/html" ? (
        <Frame html={loaded.text} title={name} />
      ) : (
        <>
          <pre className="max-h-[55vh] overflow-auto px-5 py-2 font-mono text-xs">{loaded.text.slice(0, 200_000)}</pre>
          <button
            type="button"
            className="mx-5 mt-1 text-xs text-accent hover:underline"
            onClick={() => {
              onEdit();
              void openFile(path);
            }}
          >
            Open in the editor
          </button>
        </>
      )}
    </div>
  );
}
