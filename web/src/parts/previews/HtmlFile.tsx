import { RotateCw } from "lucide-react";
import { useEffect, useState } from "react";
import { documents } from "../../state/documents";
import { useStore } from "../../state/store";
import { nameOf } from "../../state/tree";
import { Button } from "../../ui/Button";
import { Loading } from "../../ui/states";
import { Frame } from "../output/Frame";
import { whole, type Whole } from "./whole";

/** An HTML file as a page, in the frame without an origin and without a network. Files beside it are put into it. */
export default function HtmlFile({ path }: { path: string }) {
  const text = useStore(documents, (state) => state.byPath[path]?.text ?? "");
  const [page, setPage] = useState<Whole | null>(null);
  const [loads, setLoads] = useState(0);
  useEffect(() => {
    let isOld = false;
    void whole(text, path).then((found) => {
      if (!isOld) setPage(found);
    });
    return () => {
      isOld = true;
    };
  }, [text, path, loads]);
  if (!page) return <Loading label={`Opening ${nameOf(path)}`} />;
  return (
    <div className="flex h-full flex-col">
      <div className="flex min-h-8 shrink-0 items-center gap-2 border-b border-line px-2 py-0.5 text-2xs text-ink-faint">
        <Button size="small" look="quiet" icon={<RotateCw size={12} />} onClick={() => setLoads(loads + 1)}>
          Reload
        </Button>
        <span role="status" className="min-w-0">
          {page.missing.length > 0
            ? `Not found or too large: ${page.missing.slice(0, 3).join(", ")}${page.missing.length > 3 ? ` and ${page.missing.length - 3} more` : ""}.`
            : page.isFromElsewhere
              ? "A preview has no network: what this page loads from other hosts is missing. For a page that makes requests, start a server, such as python -m http.server."
              : ""}
        </span>
      </div>
      <Frame key={loads} html={page.html} title={nameOf(path)} fills isPage />
    </div>
  );
}
