import { ExternalLink, MoreHorizontal, RotateCw, TriangleAlert } from "lucide-react";
import { addressOf, isReachable, reload, show, showBelow, type Preview } from "../../state/previews";
import { attempt, note } from "../../state/toasts";
import { Hint, IconButton } from "../../ui/Button";
import { Menu } from "../../ui/Menu";
import { Pane } from "../../ui/Pane";
import { Failed, Loading } from "../../ui/states";
import { useResultTabs } from "./ResultTabs";

// With an origin of its own, which is not ours: it may keep its storage, but it cannot move or replace our page.
const OWN_ORIGIN = "allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-downloads";
// Below our own origin, it gets none.
const NO_ORIGIN = "allow-scripts allow-forms allow-modals allow-popups allow-downloads";

/** What a server in the sandbox shows to browsers. */
export function PreviewPanel({ preview }: { preview: Preview }) {
  const { port, address, problem, loads, isBelow } = preview;
  const source = addressOf(preview);
  return (
    <Pane
      title={`Preview of port ${port}`}
      heading={useResultTabs()}
      actions={
        <>
          <IconButton label="Reload the preview" size="small" disabled={!address} onClick={() => reload(port)}>
            <RotateCw size={13} />
          </IconButton>
          {address && (
            <Hint label="Open in a new window">
              <a
                href={source}
                target="_blank"
                rel="noopener noreferrer"
                aria-label="Open in a new window"
                className="inline-flex size-6 items-center justify-center rounded-md text-ink-soft hover:bg-hover hover:text-ink"
              >
                <ExternalLink size={13} />
              </a>
            </Hint>
          )}
          <Menu
            align="end"
            trigger={
              <IconButton label="More about this preview" size="small" disabled={!address}>
                <MoreHorizontal size={14} />
              </IconButton>
            }
            entries={[
              { label: "Copy the address", onSelect: () => attempt(async () => (await navigator.clipboard.writeText(new URL(source, location.href).href), note("Copied", "Whoever has the address can use the server."))) },
              { label: isBelow ? "Use an address of its own" : "Use an address below this server", onSelect: () => showBelow(port, !isBelow) },
            ]}
          />
        </>
      }
    >
      {problem ? (
        <Failed problem={problem} retry={() => show(port)} />
      ) : !address ? (
        <Loading label={`Opening port ${port}`} />
      ) : (
        <div className="flex h-full flex-col">
          {isBelow && <Limited url={address.url} />}
          <iframe
            key={`${loads} ${source}`}
            src={source}
            title={`The server on port ${port}`}
            sandbox={isBelow ? NO_ORIGIN : OWN_ORIGIN}
            referrerPolicy="no-referrer"
            className="min-h-0 w-full flex-1 border-0 bg-white [color-scheme:light]"
          />
        </div>
      )}
    </Pane>
  );
}

/** What does not work below our own address, and what to do about it. */
function Limited({ url }: { url: string }) {
  const { host, hostname, port } = location;
  return (
    <div role="status" className="flex gap-2 border-b border-line bg-warn-soft px-3 py-1.5 text-xs">
      <TriangleAlert size={14} className="mt-0.5 shrink-0 text-warn" aria-hidden="true" />
      <p className="min-w-0">
        This preview has no cookies and no storage, and finds only what it names by relative links.{" "}
        {!isReachable(url) && (
          <>
            Its own address ends in <code className="font-mono">localhost</code>, and this browser is on another machine than {hostname}. Run{" "}
            <code className="font-mono">{`ssh -L ${port || 80}:localhost:${port || 80} ${hostname}`}</code> and open{" "}
            <code className="font-mono">{`http://${host.replace(hostname, "localhost")}`}</code>, or have the operator set{" "}
            <code className="font-mono">ports_domain</code>.
          </>
        )}
      </p>
    </div>
  );
}
